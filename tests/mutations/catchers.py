"""The checks of CI that a mutant is held against, beside the audit: each raises AssertionError where it finds one."""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sottovoce.errors import MessageRefused
from sottovoce.fleet import create_fleet, enrol
from sottovoce.privacy.accounting.events import GaussianSum
from sottovoce.privacy.accounting.tally import Tally
from sottovoce.privacy.accounting.units import Units

from tests.neighbours.cases import Case
from tests.neighbours.pairs import play
from tests.support.heads import make_head
from tests.unit.vault.test_vault_mechanism_fit import FITS, noise_is_the_operating_systems

Catcher = Callable[[], None]
_PAIRS = 600


def neighbours(name: str, unit: str, relation: str, **options: object) -> Catcher:
    """Neighbours of one combination, until a pair breaks."""
    case = Case(tuple(sorted({"name": name, **options}.items())), unit, relation)

    def caught() -> None:
        for seed in range(_PAIRS):
            play(case, seed)

    caught.__name__ = f"neighbours: {case.name}"
    return caught


def fit(name: str) -> Catcher:
    """The law of a mechanism as it is applied."""

    def caught() -> None:
        FITS[name]()

    caught.__name__ = f"fit: {name}"
    return caught


def device_noise() -> None:
    """A device's noise is what the operating system gives out."""
    with pytest.MonkeyPatch.context() as patch:
        noise_is_the_operating_systems(patch)


def forged_heads() -> None:
    """A ledger head counts only if its own device signed it."""
    with tempfile.TemporaryDirectory() as directory:
        fleet = create_fleet(Path(directory) / "authority", "fleet")
        device, stranger = (enrol(fleet, Path(directory) / name) for name in ("device", "stranger"))
        forged = replace(make_head(device, 9), signature=make_head(stranger, 9).signature)
        with pytest.raises(MessageRefused):
            forged.verify(device.fleet)


def every_unit() -> None:
    """A charge counts for its first unit, its last and all between, and for no other."""
    for first, last in ((0, 7), (5, 5), (3, 4)):
        tally = Tally(1e-5)
        tally.add(GaussianSum(4, 10, Units(((first, last),))))
        counted = [unit for unit in range(12) if tally.epsilon(Units(((unit, unit),))) > 0]
        assert counted == list(range(first, last + 1))


PINS = (device_noise, forged_heads, every_unit)
for _pin, _name in zip(PINS, ("os.urandom", "signed heads", "every unit"), strict=True):
    _pin.__name__ = f"pin: {_name}"
