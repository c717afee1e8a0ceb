"""No attack gets anything of the code as it ships; and each bug is found, by the attack that is meant for it."""

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
