"""From rows to records: each row is looked up by itself in what the fleet declared, and everything else is refused."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sottovoce.data import DataSet, Declaration, Table, apply, load
from sottovoce.data.notes import data_notes, data_summary
from sottovoce.data.stability import EXTREMES, find_instability
from sottovoce.errors import DataError

LABELS = ("away", "home", "car")
COLUMNS = ("power", "hour")
DECLARED = Declaration(classes=3, features=2, columns=COLUMNS, labels=LABELS)
ROWS = [(1.5, 2.0, "home"), (3.0, 4.0, "away"), (5.0, 6.0, "home")]


def write_csv(path: Path, header: str, *lines: str) -> str:
    path.write_text("\n".join([header, *lines, ""]), encoding="utf-8")
    return f"csv:{path}#label=state"


def write_npz(path: Path, **arrays: Any) -> str:
    np.savez(path, **arrays)
    return f"npz:{path}"


def contents(data: DataSet) -> list[tuple[list[float], int]]:
    return [(row.tolist(), int(label)) for row, label in zip(data.records.features, data.records.labels, strict=True)]


def test_csv_and_npz_with_names_in_any_order_become_the_same_records(tmp_path: Path) -> None:
    expected = [([power, hour], LABELS.index(state)) for power, hour, state in ROWS]
    lines = (f"{hour},{state},{power}" for power, hour, state in ROWS)
    table = write_csv(tmp_path / "a.csv", "hour,state,power", *lines)
    assert contents(load(table, DECLARED)) == expected
    names = ["car", "home", "away"]
    X = np.array([[hour, power] for power, hour, _ in ROWS])
    y = np.array([names.index(state) for _, _, state in ROWS])
    bounds = np.array([[0, -1], [24, 9000]])
    archive = write_npz(tmp_path / "a.npz", X=X, y=y, classes=names, columns=["hour", "power"], bounds=bounds)
    data = load(archive, DECLARED)
    assert contents(data) == expected
    assert data.bounds is not None
    assert [side.tolist() for side in data.bounds] == [[-1, 0], [9000, 24]]
    text = write_npz(tmp_path / "b.npz", X=X, y=np.array([state for _, _, state in ROWS]), columns=["hour", "power"])
    assert contents(load(text, DECLARED)) == expected


@pytest.mark.parametrize("state", ["garden", "Home", "0", "nan", "-"])
def test_an_undeclared_label_is_refused_with_its_line_and_without_the_label(tmp_path: Path, state: str) -> None:
    source = write_csv(tmp_path / "a.csv", "power,hour,state", "1,2,home", f"3,4,{state}")
    with pytest.raises(DataError, match="line 3") as caught:
        load(source, DECLARED)
    assert "data.labels" in str(caught.value)
    assert f"'{state}'" not in str(caught.value)


@pytest.mark.parametrize(
    "header, names",
    [("power,state", ["hour"]), ("power,hour,extra,state", ["extra"]), ("power,hours,state", ["hour", "hours"])],
)
def test_a_missing_or_additional_column_is_named(tmp_path: Path, header: str, names: list[str]) -> None:
    source = write_csv(tmp_path / "a.csv", header, ",".join("1" for _ in header.split(",")[1:]) + ",home")
    with pytest.raises(DataError) as caught:
        load(source, DECLARED)
    assert all(name in str(caught.value) for name in names)


def test_labels_are_class_numbers_if_no_names_are_declared(tmp_path: Path) -> None:
    declared = Declaration(classes=3, features=2)
    data = load(write_csv(tmp_path / "a.csv", "a,b,state", "1,2,2", "3,4,0.0", "5,6,02"), declared)
    assert data.records.labels.tolist() == [2, 0, 2]
    assert data.classes == 3
    assert not data.unproved
    for label in ("3", "-1", "home", "1.5"):
        with pytest.raises(DataError, match="line 2"):
            load(write_csv(tmp_path / "a.csv", "a,b,state", f"1,2,{label}"), declared)


@pytest.mark.parametrize(
    "declared, labels, expected",
    [
        (("1", "2", "3"), [1, 3, 2], [0, 2, 1]),  # names that are numbers are looked up, not renumbered
        (("3", "1", "2"), [1, 3, 2], [1, 0, 2]),
        (("a", "b", "c"), [0, 2, 1], [0, 2, 1]),
    ],
)
def test_numbers_in_an_npz_file(
    tmp_path: Path, declared: Sequence[str], labels: list[int], expected: list[int]
) -> None:
    source = write_npz(tmp_path / "a.npz", X=np.zeros((3, 2)), y=np.array(labels))
    data = load(source, Declaration(classes=3, labels=tuple(declared)))
    assert data.records.labels.tolist() == expected


def test_declarations_that_differ_are_refused_and_named(tmp_path: Path) -> None:
    named = write_npz(tmp_path / "a.npz", X=np.zeros((2, 2)), y=np.array([0, 1]), classes=["away", "boat", "car"])
    with pytest.raises(DataError, match=r"boat.*home|home.*boat"):
        load(named, Declaration(classes=3, labels=LABELS))
    with pytest.raises(DataError, match=r"data\.labels"):
        load(named, Declaration(classes=3))
    counted = write_npz(tmp_path / "b.npz", X=np.zeros((2, 2)), y=np.array([0, 1]), classes=np.array(4))
    with pytest.raises(DataError, match=r"data\.classes"):
        load(counted, Declaration(classes=3))


def test_which_labels_occur_decides_nothing(tmp_path: Path) -> None:
    lines = ["1,2,home", "3,4,away"]
    for count in range(3):  # a device may have no records at all
        data = load(write_csv(tmp_path / "a.csv", "power,hour,state", *lines[:count]), DECLARED)
        assert (len(data.records), data.classes) == (count, 3)
    empty = tmp_path / "empty.csv"
    empty.write_text("", encoding="utf-8")
    assert load(f"csv:{empty}#label=-1&header=no", DECLARED).records.features.shape == (0, 2)


def test_a_workstation_may_read_classes_and_then_proves_nothing(tmp_path: Path) -> None:
    source = write_csv(tmp_path / "a.csv", "power,hour,state", "1,2,home", "3,4,away")
    read = load(source)
    assert (read.labels, "classes" in read.unproved) == (("away", "home"), True)
    assert not load(f"{source}&labels=home,away").unproved
    assert load(f"{source}&labels=home,away").records.labels.tolist() == [0, 1]
    assert not load(source, Declaration(labels=("home", "away"))).unproved
    assert load(write_npz(tmp_path / "a.npz", X=np.zeros((2, 2)), y=np.array([0, 1]))).unproved


@pytest.mark.parametrize(
    "states, name",
    [
        (["0", "1", "nan"], "line 4"),
        (["0", "1", "-"], "line 4"),
        (["a", "", "b"], "line 3"),
        (["0.5", "1.5", "2"], "target="),
        ([str(number) for number in range(60)], "target="),
    ],
)
def test_labels_that_are_no_labels_are_refused(tmp_path: Path, states: list[str], name: str) -> None:
    with pytest.raises(DataError, match=name):
        load(write_csv(tmp_path / "a.csv", "power,hour,state", *(f"1,2,{state}" for state in states)))


def test_a_target_is_the_last_column_of_a_regression(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("price,size\n10.5,3\n20,4\n", encoding="utf-8")
    data = load(f"csv:{path}#target=price")
    assert (data.classes, data.columns, data.unproved) == (1, ("size", "price"), "")
    assert data.records.features.tolist() == [[3, 10.5], [4, 20]]


def test_pandas_index_is_not_a_feature(tmp_path: Path) -> None:
    for heading in ("", "Unnamed: 0"):
        with pytest.raises(DataError, match="index=False"):
            load(write_csv(tmp_path / "a.csv", f"{heading},power,state", "0,1,2", "1,2,3"))


def test_notes_tell_the_owner_what_does_not_fit(tmp_path: Path) -> None:
    source = write_csv(tmp_path / "a.csv", "power,hour,state", "9,2,home", "-3,2,away", "4,2,home")
    data = load(f"{source}&labels=away,home&bounds=0:5")
    notes = [*data_notes(data.records, bounds=data.bounds, transform="centred-unit", columns=data.columns, delta=0.4)]
    assert any("2 in column power (0 to 5)" in note.problem for note in notes)
    assert any("0.4" in note.problem for note in notes)
    summary = data_summary(data.records, 2, data.labels, data.columns)
    assert summary == "3 records; labels away: 1, home: 2; constant columns hour"
    fitting = [*data_notes(data.records, bounds=(np.full(2, -9.0), np.full(2, 9.0)), transform="unit", delta=1e-5)]
    assert not fitting
    assert [*data_notes(data.records, bounds=None, transform="centred-unit")]
    assert not [*data_notes(data.records, bounds=None, transform="log(1),unit")]


def write_numbers(path: Path, numbers: Sequence[int]) -> None:
    lines = (f"{number * number % 997 if number < EXTREMES else 10.0 ** (number - EXTREMES)}\n" for number in numbers)
    path.write_text("".join(lines), encoding="utf-8")


def read_numbers(path: Path) -> Table:
    rows = np.array(path.read_text(encoding="utf-8").split(), dtype=np.float64).reshape(-1, 1)
    return Table(name="n", rows=(rows, (rows[:, 0] > 40).astype(np.int64)), classes=2, origin="n")


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows - rows.mean() if len(rows) else rows,
        lambda rows: rows / max(1.0, rows.max(initial=0)),
        lambda rows: np.sort(rows, axis=0),
        lambda rows: np.unique(rows, return_inverse=True)[1].reshape(-1, 1),
        lambda rows: rows[1:],
        lambda rows: np.vstack([rows, rows[:1]]),
        lambda rows: rows + len(rows),
        lambda rows: rows / 255 if rows.max(initial=0) > 1e6 else rows,
        lambda rows: np.clip(rows, *np.percentile(rows, [1, 99])) if len(rows) > 30 else rows,
        lambda rows: rows[: max(1, round(0.98 * len(rows)))] if len(rows) > 1 else rows,
    ],
)
def test_neighbours_on_a_loader_find_rows_that_change_others(change: Any) -> None:
    def read(path: Path) -> Table:
        table = read_numbers(path)
        rows = change(table.rows[0])
        return Table(name="n", rows=(rows, np.zeros(len(rows), dtype=np.int64)), classes=2, origin="n")

    assert find_instability(read_numbers, write_numbers) == ""
    assert find_instability(read, write_numbers)


def test_bounds_and_classes_read_off_the_file_are_found() -> None:
    def read(path: Path) -> Table:
        table = read_numbers(path)
        bounds = table.rows[0].min(0, initial=0), table.rows[0].max(0, initial=0)
        return Table(name="n", rows=table.rows, classes=2, bounds=bounds, origin="n")

    def write_equal(path: Path, numbers: Sequence[int]) -> None:
        path.write_text("1\n" * len(numbers), encoding="utf-8")

    assert "bounds" in find_instability(read, write_numbers)
    assert "different" in find_instability(read_numbers, write_equal)


@pytest.mark.parametrize("option", ["bounds=0:1,0:5", "bounds=0:1*2", "bounds=0:1"])
def test_an_empty_file_without_a_heading_takes_its_bounds_from_the_declaration(tmp_path: Path, option: str) -> None:
    """Otherwise, a device's only record would decide whether it starts."""
    path = tmp_path / "a.csv"
    for text in ("", "0.5,0.5,1\n"):
        path.write_text(text, encoding="utf-8")
        data = load(f"csv:{path}#header=no&label=-1&{option}", Declaration(classes=2, features=2))
        assert data.bounds is not None
        assert len(data.bounds[0]) == 2
    empty = write_npz(tmp_path / "a.npz", X=np.array([]), y=np.array([]))
    assert load(empty, Declaration(classes=2, features=2)).records.features.shape == (0, 2)


def test_the_column_to_predict_is_declared_last(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("price,size\n10.5,3\n", encoding="utf-8")
    with pytest.raises(DataError, match="price"):
        load(f"csv:{path}#target=price", Declaration(classes=1, columns=("price", "size")))
    assert load(f"csv:{path}#target=price", Declaration(classes=1, columns=("size", "price"))).classes == 1


@pytest.mark.parametrize("labels", [("1.0", "0.0"), ("1e0", "0"), ("+1", "0"), (" 1", "0"), ("2", "1"), ("3", "1")])
def test_csv_and_npz_read_the_same_numbers_as_the_same_classes(tmp_path: Path, labels: tuple[str, str]) -> None:
    numbers = [int(float(label)) for label in labels]
    declared = Declaration(classes=2, labels=labels)
    table = load(write_csv(tmp_path / "a.csv", "a,b,state", *(f"1,2,{number}" for number in numbers)), declared)
    archive = load(write_npz(tmp_path / "a.npz", X=np.zeros((2, 2)), y=np.array(numbers)), declared)
    assert table.records.labels.tolist() == archive.records.labels.tolist() == [0, 1]


def test_declared_names_that_cannot_be_told_apart_are_refused(tmp_path: Path) -> None:
    source = write_csv(tmp_path / "a.csv", "a,b,state", "1,2,1")
    for labels in (("1", "1.0"), ("0", "00"), ("home", "home ")):
        with pytest.raises(DataError, match="label"):
            load(source, Declaration(classes=2, labels=labels))
    mixed = write_npz(tmp_path / "a.npz", X=np.zeros((2, 2)), y=np.array([1, 0]))
    with pytest.raises(DataError, match=r"data\.labels"):
        load(mixed, Declaration(classes=2, labels=("1", "home")))
    with pytest.raises(DataError, match="bus"):
        load(f"{source}&labels=car,bus", Declaration(classes=2, labels=("car", "1")))


def test_a_transform_of_huge_numbers_is_silent_and_gives_a_row_of_zeros() -> None:
    rows = np.array([[1.7e308, -1.7e308, 1.0, 2.0], [1.0, 2.0, 3.0, 4.0]])
    for name in ("centre,unit", "centre,rms", "unit", "harmonics(1),unit", "centred-unit"):
        transformed = apply(name, rows, None)
        assert np.isfinite(transformed).all()
        np.testing.assert_array_equal(transformed[1], apply(name, rows[1:], None)[0])
