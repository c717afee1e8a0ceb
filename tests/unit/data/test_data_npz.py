"""`npz:FILE`: it accepts exactly the documented arrays, and unpickles nothing."""

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sottovoce.data import DataSet, load
from sottovoce.errors import DataError

X = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
Y = np.array([0, 1, 2, 1], dtype=np.uint8)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return tmp_path / "records.npz"


def load_npz(archive: Path, options: str = "", **arrays: Any) -> DataSet:
    np.savez_compressed(archive, **arrays)
    return load(f"npz:{archive}{options}")


@pytest.mark.parametrize("names", [("X", "y"), ("features", "labels")])
def test_records_of_any_shape_are_flattened(archive: Path, names: tuple[str, str]) -> None:
    arrays: dict[str, Any] = {names[0]: X, names[1]: Y}
    data = load_npz(archive, **arrays)
    assert data.records.features.tolist() == X.reshape(4, 6).tolist()
    assert data.records.labels.tolist() == Y.tolist()
    assert (data.classes, data.bounds, data.test) == (3, None, None)
    assert data.name == "npz:records.npz"


def test_declared_classes_may_exceed_the_labels_present(archive: Path) -> None:
    assert load_npz(archive, X=X, y=Y, classes=np.array(10)).classes == 10
    assert load_npz(archive, X=X, y=Y, classes=np.array(["cat", "dog", "frog", "ship"])).classes == 4


def test_an_empty_slice_with_declared_classes_is_allowed(archive: Path) -> None:
    data = load_npz(archive, X=X[:0], y=Y[:0], classes=np.array(3))
    assert len(data.records) == 0
    assert data.records.features.shape == (0, 6)
    with pytest.raises(DataError, match="`classes`"):
        load_npz(archive, X=X[:0], y=Y[:0])


def test_a_mask_marks_the_test_split(archive: Path) -> None:
    data = load_npz(archive, X=X, y=Y, test=np.array([False, True, False, True]))
    assert data.test is not None
    assert data.records.features.tolist() == X.reshape(4, 6)[[0, 2]].tolist()
    assert data.test.features.tolist() == X.reshape(4, 6)[[1, 3]].tolist()
    assert data.records.labels.tolist() == [0, 2]


def test_a_test_split_may_be_separate_and_counts_for_the_classes(archive: Path) -> None:
    data = load_npz(archive, X=X[:2], y=Y[:2], X_test=X[2:], y_test=Y[2:])
    assert data.test is not None
    assert len(data.test) == 2
    assert data.classes == 3


def test_bounds_come_from_the_file_or_from_the_option_which_takes_precedence(archive: Path) -> None:
    declared = np.array([[0] * 6, [9] * 6])
    in_file = load_npz(archive, X=X, y=Y, bounds=declared).bounds
    in_spec = load_npz(archive, "#bounds=-1:50", X=X, y=Y, bounds=declared).bounds
    assert in_file is not None
    assert in_spec is not None
    assert [side.tolist() for side in in_file] == declared.tolist()
    assert [side.tolist() for side in in_spec] == [[-1] * 6, [50] * 6]


def test_records_have_their_windows(archive: Path) -> None:
    days = np.array([7, 7, 8, 9], dtype=np.uint16)
    data = load_npz(archive, X=X, y=Y, windows=days, test=np.array([False, True, False, False]))
    assert data.records.windows is not None
    assert data.records.windows.tolist() == [7, 8, 9]
    assert data.records.at(np.array([2, 0])).windows.tolist() == [9, 7]  # type: ignore[union-attr]
    assert load_npz(archive, X=X, y=Y).records.windows is None


def test_groups_are_numbered_and_not_part_of_the_records(archive: Path) -> None:
    households = np.array([900, -4, 7, 900], dtype=np.int16)
    data = load_npz(archive, X=X, y=Y, groups=households, test=np.array([False, True, False, False]))
    assert data.groups is not None
    assert data.groups.tolist() == [1, 0, 1]
    assert data.records.features.shape == (3, 6)
    assert load_npz(archive, X=X, y=Y).groups is None


@pytest.mark.parametrize(
    "arrays, problem",
    [
        ({"y": Y}, r"\bX\b.*features"),
        ({"X": X}, r"\by\b.*labels"),
        ({"X": np.zeros(4), "y": Y}, "1 dimensions"),
        ({"X": np.float64(3), "y": Y}, "0 dimensions"),
        ({"X": X, "y": Y[:3]}, "4 rows.*3 labels"),
        ({"X": X, "y": Y.astype(float)}, "float64"),
        ({"X": X, "y": Y, "classes": np.array(2)}, "row 2"),
        ({"X": X, "y": Y, "classes": np.array([3, 3])}, "`classes`"),
        ({"X": X, "y": Y, "classes": np.array(["one"])}, "class"),
        ({"X": X, "y": Y, "classes": np.array(3.0)}, "`classes`"),
        ({"X": X, "y": Y, "classes": np.array(0)}, r"`classes`.*\b2\b"),
        ({"X": X, "y": Y, "bounds": np.zeros((2, 5))}, "`bounds`"),
        ({"X": X, "y": Y, "bounds": np.array([["a"] * 6] * 2)}, "bounds"),
        ({"X": X, "y": Y, "bounds": np.array([[1] * 6, [0] * 6])}, "bound"),
        ({"X": X, "y": Y, "windows": np.arange(3)}, "windows"),
        ({"X": X, "y": Y, "windows": np.arange(4.0)}, "windows"),
        ({"X": X, "y": Y, "windows": np.array([0, 1, -1, 2])}, "window"),
        ({"X": X, "y": Y, "groups": np.arange(3)}, "groups"),
        ({"X": X, "y": Y, "groups": np.arange(4.0)}, "groups"),
        (
            {"X": X, "y": Y, "windows": np.arange(3), "test": np.zeros(4, dtype=bool)},
            "windows",
        ),
        ({"X": X, "y": Y, "test": np.zeros(4)}, "`test`"),
        ({"X": X, "y": Y, "test": np.zeros(3, dtype=bool)}, "`test`"),
        ({"X": X, "y": Y, "test": np.zeros(4, dtype=bool), "X_test": X}, "twice"),
        ({"X": X, "y": Y, "X_test": X}, "`X_test`.*`y_test`"),
        ({"X": X, "y": Y, "X_test": X[:, :1], "y_test": Y}, r"3 feature.*\b6\b"),
        ({"X": np.full((4, 2), np.nan), "y": Y}, "row 0.*column 0"),
    ],
)
def test_mismatched_arrays_are_refused(archive: Path, arrays: dict[str, Any], problem: str) -> None:
    with pytest.raises(DataError, match=problem) as exc_info:
        load_npz(archive, **arrays)
    assert str(archive) in str(exc_info.value)


class Trap:
    """Class whose unpickling creates a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (str(self.directory),)


def test_pickled_objects_are_refused_and_never_executed(archive: Path, tmp_path: Path) -> None:
    trap = np.array([Trap(tmp_path / "sprung")] * 4, dtype=object).reshape(4, 1)
    with pytest.raises(DataError, match="pickled"):
        load_npz(archive, X=trap, y=Y)
    archive.write_bytes(pickle.dumps(trap))
    with pytest.raises(DataError, match="pickled"):
        load(f"npz:{archive}")
    assert not (tmp_path / "sprung").exists()


def test_incomplete_archives_are_refused(archive: Path) -> None:
    np.savez_compressed(archive, X=X, y=Y)
    whole = archive.read_bytes()
    for content in (b"", b"PK", b"not an archive", whole[:-30], whole[: len(whole) // 2], whole[:60] + bytes(40)):
        archive.write_bytes(content)
        with pytest.raises(DataError, match=r"records\.npz.*savez_compressed"):
            load(f"npz:{archive}")


def test_a_bare_npy_file_is_refused(archive: Path) -> None:
    with archive.open("wb") as stream:
        np.save(stream, X)
    with pytest.raises(DataError, match="npz"):
        load(f"npz:{archive}")
