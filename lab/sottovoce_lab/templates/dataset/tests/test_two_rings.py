"""Test that the loaded records match the data SPEC."""

from sottovoce.data import load


def test_it_loads_by_its_spec() -> None:
    found = load("two-rings#records=100")
    assert len(found.records) == 100
    assert found.classes == 2
