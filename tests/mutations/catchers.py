"""The checks of CI that a mutant is held against, beside the audit: each raises AssertionError where it finds one."""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from sottovoce.errors import MessageRefused
from sottovoce.privacy.accounting.events import GaussianSum
from sottovoce.privacy.accounting.tally import Tally
from sottovoce.privacy.accounting.units import Units
from sottovoce_operator.fleet import create_fleet, enrol

from tests.neighbours import test_neighbours, test_tasks
from tests.neighbours.cases import Case
from tests.neighbours.pairs import play
from tests.property import test_accounting_exact
from tests.support.heads import make_head
from tests.unit.accounting import test_relations
from tests.unit.vault.test_vault_mechanism_fit import (
    FITS,
    every_number_has_its_own_noise,
    noise_is_the_operating_systems,
)

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


def played(name: str, unit: str, relation: str, **options: object) -> Catcher:
    """The pairs of one combination that `make test` plays."""
    case = Case(tuple(sorted({"name": name, **options}.items())), unit, relation)
    test = partial(test_neighbours.test_neighbours_differ_by_at_most_the_charge, case)
    return _named(f"make test, neighbours: {case.name}", test)


def extremal(name: str, unit: str, relation: str) -> Catcher:
    """Neighbours of one combination that are as far apart as the charge allows."""
    test = partial(test_neighbours.test_extremal_neighbours_attain_the_charge, name, unit, relation)
    return _named(f"make test, extremal neighbours: {name} {unit} {relation}", test)


def tasks(unit: str, relation: str) -> Catcher:
    """Tasks in a ledger of this unit and relation."""
    test = partial(test_tasks.test_tasks_cost_at_most_what_the_ledger_prints, unit, relation)
    return _named(f"make test, tasks: {unit} {relation}", test)


def calibrated(kind: str, relation: str) -> Catcher:
    """A calibrated mechanism's whole run, by a second library."""
    test = partial(
        test_accounting_exact.test_a_calibrated_mechanism_costs_at_most_its_budget, kind, relation, 40, 3.0, 422
    )
    return _named(f"make test, exact cost: {kind} {relation}", test)


def each_number(mechanism: str) -> Catcher:
    """The noise of each number of a release."""
    return _named(f"make test, each number: {mechanism}", partial(every_number_has_its_own_noise, mechanism))


def _named(name: str, test: Callable[[], None]) -> Catcher:
    def caught() -> None:
        test()

    caught.__name__ = name
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


def printed_totals() -> None:
    """A ledger prints at least what its charges cost by a second library."""
    test_accounting_exact.test_a_ledger_prints_at_least_what_its_charges_cost()


def renumbered_records() -> None:
    """After a new task, any record may be the one that earlier tasks charged most."""
    test_relations.test_renumbered_records_count_as_the_record_charged_most()


PINS = (device_noise, forged_heads, every_unit, printed_totals, renumbered_records)
for _pin, _name in zip(
    PINS, ("os.urandom", "signed heads", "every unit", "printed totals", "renumbered records"), strict=True
):
    _pin.__name__ = f"pin: {_name}"
