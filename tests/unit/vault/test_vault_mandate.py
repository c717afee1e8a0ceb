"""Ledger across tasks: each within its own ε, all together within the device's ε."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sottovoce.errors import LedgerError, TaskRefused
from sottovoce.privacy.accounting.events import GaussianSum, RecordReleased
from sottovoce.privacy.accounting.relations import Promise, convert_charge
from sottovoce.privacy.accounting.units import EVERY
from sottovoce.privacy.ledger.budget import StoredRelease
from sottovoce.privacy.ledger.mandate import Mandate
from sottovoce.privacy.mechanisms.clipped_sum import calibrate, sum_clipped_rows
from sottovoce.privacy.vault import Budget, Ledger
from sottovoce.reports.account import audit_account, build_account, epsilon_history

OWNER, QUERY = "meter-17", bytes(32)
LIFE = Budget(2.0, 1e-5, "record", "replace-one")
TASK = Budget(0.5, 1e-5, "record", "replace-one")
SUM = GaussianSum(120**2, 1000)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    Ledger.create(tmp_path / "ledger.db", OWNER, LIFE)
    return tmp_path / "ledger.db"


def test_a_task_spends_its_own_budget_and_a_repeated_query_counts_as_new(path: Path) -> None:
    ledger = Ledger.open(path, OWNER, LIFE)
    assert ledger.charge(QUERY, SUM)
    ledger.store(QUERY, StoredRelease(0, b"old", False))
    before = ledger.spending().epsilon
    ledger.take_up(Mandate(3, TASK, b"signed"))
    assert ledger.budget == TASK
    assert ledger.stored_release(QUERY) is None, "no answer from another task"
    assert ledger.charge(QUERY, SUM)
    assert not ledger.charge(bytes([1]) * 32, SUM), "two are above .5"
    spending = ledger.spending()
    assert spending.of_task is not None
    assert (spending.of_task.epsilon, spending.of_task.releases, spending.releases) == (before, 0, 1)
    assert before < spending.epsilon < 2 * before
    ledger.close()
    reopened = Ledger.open(path, OWNER, LIFE)
    assert reopened.spending() == spending
    assert reopened.mandate == Mandate(3, TASK, b"signed")
    assert not reopened.charge(bytes([1]) * 32, SUM)
    reopened.take_up(Mandate(4, TASK))
    assert reopened.charge(bytes([1]) * 32, SUM)
    account = build_account(reopened)
    assert audit_account(account)[0].epsilon == reopened.spending().epsilon == epsilon_history(reopened, 10)[-1][1]
    assert [charge.stamp != "" for charge in account.charges] == [False, True, True]
    with pytest.raises(LedgerError, match=r"end.*link"):
        audit_account(_replace_stamp(account, 1, ""))
    reopened.close()


def _replace_stamp(account, index: int, stamp: str):  # type: ignore[no-untyped-def]
    charges = list(account.charges)
    charges[index] = type(charges[index])(charges[index].query, charges[index].terms, stamp)
    return type(account)(
        **{name: getattr(account, name) for name in account.__struct_fields__} | {"charges": tuple(charges)}
    )


def test_all_tasks_together_stay_within_the_device_s_budget(path: Path) -> None:
    ledger, charged = Ledger.open(path, OWNER, LIFE), 0
    for epoch in range(1, 100):
        ledger.take_up(Mandate(epoch, TASK))
        charged += ledger.charge(QUERY, SUM)
    assert 10 < charged < 60, "as the Gaussians compose"
    assert ledger.spending().epsilon <= 2.0


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_finished_epoch_is_refused(path: Path, epoch: int) -> None:
    ledger = Ledger.open(path, OWNER, LIFE)
    ledger.take_up(Mandate(2, TASK))
    with pytest.raises(LedgerError, match=f"epoch {epoch} has passed"):
        ledger.take_up(Mandate(epoch, TASK))
    assert ledger.mandate == Mandate(2, TASK)


def test_a_device_level_release_costs_each_record_two_changes(path: Path) -> None:
    ledger = Ledger.open(path, OWNER, LIFE)
    ledger.take_up(Mandate(1, Budget(1.0, 1e-5, "device", "add-remove")))
    assert ledger.charge(QUERY, SUM)
    once = ledger.spending()
    assert once.of_task is not None
    assert once.of_task.epsilon < 0.6 * once.epsilon, "two changes, μ twice as large"


def test_another_task_s_records_count_as_the_record_charged_most(path: Path) -> None:
    ledger, event = Ledger.open(path, OWNER, LIFE), RecordReleased(7, "laplace", 4, 2, 0.5)
    for epoch in (1, 2, 3, 4):
        ledger.take_up(Mandate(epoch, TASK))
        assert ledger.charge(QUERY, replace(event, record=epoch))
    ledger.take_up(Mandate(5, TASK))
    assert ledger.payable_units(replace(event, record=99)) is None, "is this really none of the four?"
    assert ledger.spending().epsilon == 2.0


def test_conversions_without_a_proof_are_refused_by_name(path: Path, tmp_path: Path) -> None:
    add_remove = Budget(2.0, 1e-5, "record", "add-remove")
    Ledger.create(tmp_path / "other.db", OWNER, add_remove)
    ledger = Ledger.open(tmp_path / "other.db", OWNER, add_remove)
    ledger.take_up(Mandate(1, TASK))
    for event in (RecordReleased(7, "laplace", 4, 2, 0.5), SUM):
        with pytest.raises(TaskRefused, match="--neighbouring replace-one"):
            ledger.check([event], Mandate(2, TASK))
        with pytest.raises(TaskRefused, match="--neighbouring replace-one"):
            ledger.charge(QUERY, event)


def _draw_neighbours(rng: np.random.Generator, neighbouring: str, clip: float) -> tuple[np.ndarray, np.ndarray]:
    """Make two data sets for a device, one record apart, some of them as far apart as possible."""
    rows = rng.normal(size=(int(rng.integers(1, 6)), 4)) * clip * rng.choice([0.1, 1.0, 100.0])
    neighbour = rows.copy()
    neighbour[0] = -neighbour[0] * rng.choice([1.0, 1000.0])
    return (rows, neighbour) if neighbouring == "replace-one" else (rows, rows[1:])


@pytest.mark.parametrize("neighbouring", ["add-remove", "replace-one"])
@pytest.mark.parametrize("unit", ["record", "device"])
def test_one_record_moves_a_release_by_at_most_its_charge(unit: str, neighbouring: str) -> None:
    """Releases for add-remove in a ledger for records; exact, in squared grid units."""
    rng, clip = np.random.default_rng(3), 2.0
    mechanism = calibrate(clip=clip, size=4, releases=1, epsilon=2.0, delta=1e-5, neighbouring="add-remove")
    event, changes = convert_charge(mechanism.event, Promise(unit, "add-remove"), Promise("record", neighbouring))
    assert event.units == EVERY
    farthest = 0
    for _ in range(60):
        sums = [
            sum_clipped_rows(
                mechanism, iter([rows.mean(axis=0, keepdims=True) if unit == "device" and len(rows) else rows])
            )
            for rows in _draw_neighbours(rng, neighbouring, clip)
        ]
        farthest = max(farthest, int(((sums[0] - sums[1]) ** 2).sum()))
    charged = changes**2 * mechanism.sensitivity_squared
    assert 0.9 * charged < farthest <= charged or (
        changes == 2 and neighbouring == "add-remove" and farthest <= charged
    )
