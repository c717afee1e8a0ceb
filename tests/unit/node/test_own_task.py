"""Task of a configuration: it contains what devices must share, and no device's own settings."""

import contextlib
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from sottovoce.config import AgentConfig, config_from_tables
from sottovoce.errors import ConfigError
from sottovoce.learning.registry import ALGORITHMS
from sottovoce.node.own_task import build_task, declared_ranges, planned_steps
from sottovoce.task import LARGEST, Task, read

BASE: dict[str, dict[str, Any]] = {
    "agent": {"state": "state"},
    "data": {"source": "npz:absent.npz", "features": 4, "classes": 3, "expected_records": 60.0, "bounds": [0, 10]},
    "learner": {"name": "clipd2p"},
}
ALIKE = [  # one key that a fleet agrees on, and another value
    ("data", "bounds", [0, 1000]), ("data", "expected_records", 600.0), ("data", "features", 5), ("data", "classes", 4),
    ("data", "transform", "none"), ("data", "transform", "standard"), ("data", "ranges", "training"),
    ("data", "columns", ["b", "a", "c", "d"]), ("data", "columns", ["a °F", "b", "c", "d"]),
    ("data", "labels", ["y", "x", "z"]),
    ("learner", "name", "push-sum"), ("learner", "name", "group-sgd"), ("learner", "steps", 480),
    ("learner", "step_size", 2000.0),
    ("learner", "clip", 0.25), ("learner", "step_decay", 0.25), ("learner", "sampling", "poisson"),
    ("learner", "batch", 32), ("learner", "model", "mlp"), ("learner", "clipping", "decay"),
    ("learner", "clip_decay", 0.5), ("learner", "clip_quantile", 0.5), ("learner", "start", [0.5]),
    ("learner", "centre", "none"),
    ("privacy", "unit", "device"),
    ("privacy", "neighbouring", "replace-one"), ("task", "name", "winter"), ("task", "epoch", 1),
    ("task", "steps", 500), ("task", "epsilon", 3.0),
]  # fmt: skip
OWN = [
    ("learner", "period", 3.0), ("learner", "fanout", 2), ("learner", "longest_period", 9.0), ("learner", "threads", 2),
    ("privacy", "epsilon", 1.0), ("privacy", "delta", 1e-6), ("agent", "state", "elsewhere"),
    ("agent", "bytes_per_day", 2**21), ("membership", "period", 5.0), ("transport", "timeout", 3.0),
    ("data", "source", "npz:other.npz"), ("ledger", "alone", True),
]  # fmt: skip


def config(*changes: tuple[str, str, Any]) -> AgentConfig:
    tables: dict[str, dict[str, Any]] = {name: dict(table) for name, table in BASE.items()}
    for table, key, value in changes:
        tables.setdefault(table, {})[key] = value
    return config_from_tables(tables, "test")


@pytest.mark.parametrize("change", ALIKE, ids=str)
def test_shared_settings_are_distinguished_and_named(change: tuple[str, str, Any]) -> None:
    own, other = build_task(config()), build_task(config(change))
    assert own.digest != other.digest
    assert any(difference.startswith(f"{change[0]}.{change[1]} ") for difference in own.differences(other))


@pytest.mark.parametrize("change", OWN, ids=str)
def test_a_device_s_own_settings_are_not_in_the_task(change: tuple[str, str, Any]) -> None:
    assert build_task(config(change)).digest == build_task(config()).digest


@pytest.mark.parametrize("records", [60.0, 300.0, 6000.0])
def test_the_default_number_of_steps_is_in_the_task_as_a_number(records: float) -> None:
    many = ("data", "expected_records", records)
    steps = planned_steps(config(many))
    assert steps == {60.0: 48, 300.0: 72, 6000.0: 144}[records]
    assert build_task(config(many, ("learner", "steps", steps))).digest == build_task(config(many)).digest


def test_below_a_ceiling_steps_are_a_device_s_own_setting() -> None:
    most = ("task", "steps", 100)
    few, many = build_task(config(most, ("learner", "steps", 5))), build_task(config(most, ("learner", "steps", 100)))
    assert few.digest == many.digest
    with pytest.raises(ConfigError, match=r"learner\.steps.*\b100\b"):
        config(most, ("learner", "steps", 101))
    with pytest.raises(ConfigError, match=r"privacy\.epsilon.*\b1\b"):
        config(("task", "epsilon", 1.0))


@pytest.mark.papers
@pytest.mark.parametrize("name", ["golf", "dp-cga", "without-replacement"])
def test_no_ceiling_of_steps_suits_a_learner_that_cannot_take_fewer(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"task\.steps: .*learner {name}"):
        config(("task", "steps", 100), ("learner", "name", name))


@pytest.mark.papers
def test_a_learner_without_steps_plans_none() -> None:
    assert planned_steps(config(("learner", "name", "golf"))) is None


def test_explicit_defaults_and_omitted_keys_are_equal() -> None:
    keys = (
        ("data", "transform", "squash(1), centre,unit,bias(0.3)"),
        ("learner", "model", "softmax"),
        ("learner", "step_size", 20.0),
        ("privacy", "unit", "record"),
    )
    assert build_task(config(*keys)).digest == build_task(config()).digest


def test_names_cover_all_columns_or_none() -> None:
    with pytest.raises(ConfigError, match=r"data\.columns.*\b2\b.*\b4\b"):
        config(("data", "columns", ["a", "b"]))
    with pytest.raises(ConfigError, match=r"data\.labels.*\b4\b.*\b3\b"):
        config(("data", "labels", ["a", "b", "c", "d"]))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_s_document_is_read_as_it_was_written(name: str) -> None:
    data = {"learner": {"name": name}}
    if name == "average":
        data["privacy"] = {"unit": "device"}
    task = build_task(config_from_tables({**BASE, **data}, "test"))
    assert read(task.canonical).digest == task.digest
    assert len(task.canonical) < LARGEST


def test_the_source_s_bounds_count_like_the_configuration_s(tmp_path: Path) -> None:
    bounds = np.stack([np.zeros(4), np.full(4, 10.0)])
    np.savez(tmp_path / "a.npz", X=np.zeros((3, 4)), y=np.zeros(3, dtype=int), classes=np.array(3), bounds=bounds)
    source = ("data", "source", f"npz:{tmp_path / 'a.npz'}")
    assert build_task(config(source, ("data", "bounds", None))).digest == build_task(config()).digest


def test_exactly_the_differences_are_shown() -> None:
    names: list[Any] = [f"column number {number}" for number in range(20)]
    other = [*names[:15], names[16], names[15], *names[17:]]
    (difference,) = Task({"data.columns": names}).differences(Task({"data.columns": other}))
    assert "number 16" in difference.partition(" where ")[0]
    assert "number 15" in difference.partition(" where ")[2]
    many = Task({f"key {number}": 1 for number in range(100)}).differences(Task({}))
    assert (len(many), many[-1]) == (11, "and 90 more")


def test_graphs_are_distinguished_by_content_and_not_by_path(tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.onnx" for name in ("one", "same", "other")]
    for index, flaw in zip(paths, ("", "", "changed"), strict=True):
        index.write_bytes(b"\x08\x09" + flaw.encode())
    one, same, other = (
        build_task(config(("learner", "model", str(index)), ("data", "transform", "none"))) for index in paths
    )
    assert one.digest == same.digest
    assert [difference.split()[0] for difference in one.differences(other)] == ["learner.model"]


def test_a_long_value_is_represented_by_its_digest() -> None:
    names = [f"column number {number}, kWh" for number in range(5000)]
    data = {**BASE["data"], "features": 5000, "columns": names}
    own, other = (
        build_task(config_from_tables({**BASE, "data": {**data, "columns": given}}, "test"))
        for given in (names, names[::-1])
    )
    assert len(own.canonical) < LARGEST
    assert own.digest != other.digest


VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
DOCUMENTS = st.dictionaries(st.text(min_size=1), VALUES | st.lists(st.floats(0, 1)), max_size=8)


@pytest.mark.slow
@given(settings=DOCUMENTS, key=st.text(min_size=1), value=VALUES)
def test_any_single_difference_is_detected_and_shown_on_one_line(
    settings: dict[str, Any], key: str, value: Any
) -> None:
    own, other = Task(settings), Task({**settings, key: value})
    same = own.canonical == other.canonical
    assert same == (own.digest == other.digest)
    result = read(own.canonical).differences(read(other.canonical))
    assert len(result) == (0 if same else 1)
    assert all(keys.isprintable() and len(keys) < 400 for keys in result)


@given(raw=st.binary(max_size=200))
def test_arbitrary_bytes_from_a_peer_are_only_refused(raw: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert read(raw).canonical == raw


def test_a_separate_vault_reports_the_ranges_that_its_file_declares() -> None:
    own = config(("data", "bounds", None))
    assert build_task(own).settings["data.bounds"] == "unknown", "the file does not exist here"
    assert build_task(own, declared_ranges(config().data)).digest == build_task(config()).digest
    assert build_task(own, "none").digest != build_task(own).digest
