"""Test that the loaded records match the file, and that each row becomes a record by itself."""

from pathlib import Path

from sottovoce.data import load
from sottovoce.data.spec import unproved_reason
from two_rings import write


def test_it_loads_by_its_spec(tmp_path: Path) -> None:
    write(tmp_path / "points.txt", range(100))
    found = load(f"two-rings:{tmp_path / 'points.txt'}")
    assert len(found.records) == 100
    assert found.classes == 2


def test_each_row_becomes_a_record_by_itself() -> None:
    assert not unproved_reason("two-rings")
