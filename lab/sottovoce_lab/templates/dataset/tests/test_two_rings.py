"""Test that the loaded records match the file, and that each row becomes a record by itself."""

from pathlib import Path

from sottovoce.plugin import load
from sottovoce.testing import check_data_kind
from two_rings import write


def test_it_keeps_the_contract() -> None:
    check_data_kind("two-rings")


def test_it_loads_by_its_spec(tmp_path: Path) -> None:
    write(tmp_path / "points.txt", range(100))
    found = load(f"two-rings:{tmp_path / 'points.txt'}")
    assert len(found.records) == 100
    assert found.classes == 2
