"""Attacks on secure sums: none succeeds against the shipped code, and the intended attack finds each bug."""

import pytest

from tests.cells.__main__ import succeeded
from tests.cells.attacks import ATTACKS
from tests.cells.bugs import BUGS


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_gets_nothing(name: str) -> None:
    assert ATTACKS[name]() is None


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bug, attacks = BUGS[name]
    bug(monkeypatch)
    for attack in attacks:
        assert succeeded(attack) is not None
