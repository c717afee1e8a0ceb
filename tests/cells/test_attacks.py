"""Attacks on secure sums: none succeeds against the shipped code, and the intended attack finds each bug."""

import pytest

from tests.cells.__main__ import run_attack
from tests.cells.attacks import ATTACKS
from tests.cells.bugs import BUGS


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_fail_against_the_shipped_code(name: str) -> None:
    assert ATTACKS[name]() is None


@pytest.mark.parametrize("name", BUGS)
def test_the_intended_attacks_find_each_bug(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bug, attacks = BUGS[name]
    bug(monkeypatch)
    for attack in attacks:
        assert run_attack(attack) is not None
