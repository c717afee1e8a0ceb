"""Records that grow while their vault is open: a window is charged once finished, and not before."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.accounting.units import Units
from sottovoce.agent.wait_status import Waits
from sottovoce.data import Records
from sottovoce.door import Query, Refused, Release
from sottovoce.errors import DataError, VaultAway
from sottovoce.kernels.softmax import Softmax
from sottovoce.vault import Budget, GrowingRecords, Ledger, OperatingSystemNoise, Vault, build
from sottovoce.vault.clipped_sum import DiscreteGaussian
from sottovoce.vault.mandate import Mandate
from sottovoce.vault.noise import NoiseSource
from sottovoce.vault.remote import RemoteVault
from sottovoce.vault.terms.gradients import GradientTerms

from tests.support.vaults import served, serving

KERNEL = Softmax(3, 4)
STEPS = 3
FIRST, LAST = 10, 19


@dataclass
class Home:
    """A meter and the date.

    Attributes:
        days: of each record that it has kept.
        over: the last day that is over.
        reads: how often its records were read.
        broken: they cannot be, because of `cause`, if any.
    """

    days: list[int]
    over: int | None
    reads: int = 0
    broken: bool = False
    cause: Exception | None = None
    ledger: Ledger = field(
        default_factory=lambda: Ledger.in_memory("meter-17", Budget(2.0, 1e-5, "window", "add-remove"))
    )

    def records(self) -> Records:
        self.reads += 1
        if self.broken:
            raise DataError("windows.db: these windows cannot be used") from self.cause
        count = len(self.days)
        return Records(np.ones((count, 3)), np.zeros(count, dtype=np.int64), np.array(self.days, dtype=np.int64))

    def vault(self) -> Vault:
        return build(
            records=self.records(),
            kernel=KERNEL,
            terms=GradientTerms("clipd2p", STEPS, 0.5, (FIRST, LAST)),
            ledger=self.ledger,
            noise=OperatingSystemNoise(),
            followed=GrowingRecords(self.records, lambda: self.over),
        )

    def charged(self, slot: int) -> Units | None:
        event = self.ledger.charged_event(query(slot).id)
        return None if event is None else event.units


def query(slot: int) -> Query:
    return Query("clipd2p", "gradient", slot, np.zeros(KERNEL.size))


def released(vault: Vault, slot: int) -> Release:
    answer = vault.answer(query(slot))
    assert not isinstance(answer, Refused), answer
    return answer


def reason(vault: Vault, slot: int) -> str:
    answer = vault.answer(query(slot))
    assert isinstance(answer, Refused)
    return answer.reason


def test_days_that_are_over_are_charged_whether_they_hold_records_or_not_and_no_others() -> None:
    home = Home(days=[11, 11, 12, 14], over=12)
    vault = home.vault()
    assert released(vault, 0).units == 3
    assert home.charged(0) == Units(((FIRST, 12),)), "day 10 is empty and pays; day 14 is still going on"
    home.over = 13
    assert released(vault, 1).units == 4
    home.over = LAST + 40
    assert released(vault, 2).units == LAST - FIRST + 1, "no day after the last that may be learnt from"
    assert home.ledger.epsilon_spent(Units(((LAST + 1, LAST + 1),))) == 0.0


@pytest.mark.parametrize("over", [None, FIRST - 1, -1])
def test_while_no_day_is_over_nothing_is_charged(over: int | None) -> None:
    home = Home(days=[10, 11], over=over)
    assert reason(home.vault(), 0) == "calendar"
    assert home.ledger.spending().charges == 0


def test_a_day_that_comes_is_read_without_a_restart_and_pays_for_itself(seen: list[int]) -> None:
    home = Home(days=[10, 11], over=11)
    vault = home.vault()
    for slot in range(STEPS):
        released(vault, slot)
    spent = home.ledger.spending().epsilon
    assert reason(vault, STEPS) == "budget", "the days that are over have paid"
    assert home.ledger.spending().charges == STEPS
    home.days, home.over = [10, 11, 12, 12, 13], 12
    seen.clear()
    assert released(vault, STEPS).units == 1
    assert seen == [12, 12], "what is read is what is charged"
    assert home.charged(STEPS) == Units(((12, 12),))
    assert home.ledger.spending().epsilon == spent, "it is the days before that were charged most"


@pytest.mark.parametrize("jump", [-400, -2, 400])
def test_a_clock_that_is_set_neither_renews_a_day_nor_locks_those_that_come(jump: int) -> None:
    home = Home(days=list(range(FIRST, LAST + 1)), over=12)
    vault = home.vault()
    for slot in range(STEPS):
        released(vault, slot)
    home.over = 12 + jump
    for slot in range(STEPS, STEPS + 2):
        vault.answer(query(slot))
    for day in range(FIRST, LAST + 1):
        assert home.ledger.epsilon_spent(Units(((day, day),))) <= 2.0
    home.over = 14
    assert released(vault, STEPS + 2).units == 2, "days 13 and 14, whatever the clock had said"


def test_what_cannot_be_read_is_not_charged_and_is_answered_when_it_can() -> None:
    home = Home(days=[10], over=10)
    vault = home.vault()
    home.broken = True
    with pytest.raises(DataError):
        vault.answer(query(0))
    assert home.ledger.spending().charges == 0
    home.broken = False
    first = released(vault, 0)
    reads, home.over, home.broken = home.reads, 15, True
    again = released(vault, 0)
    assert (again.value == first.value).all(), "an answer that was given is given again, from the ledger"
    assert (again.units, home.reads) == (first.units, reads)


def test_a_charge_whose_release_was_lost_pays_for_its_own_days_when_others_have_ended(
    monkeypatch: pytest.MonkeyPatch, seen: list[int]
) -> None:
    home = Home(days=[10, 11, 12], over=11)
    vault = home.vault()
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "store", lambda *_: (_ for _ in ()).throw(OSError("a power cut")))
        with pytest.raises(OSError, match="power cut"):
            vault.answer(query(0))
    home.over = 12
    seen.clear()
    assert released(vault, 0).units == 2
    assert seen == [10, 11]
    assert home.ledger.spending().charges == 1


@pytest.mark.parametrize(
    "cause, told", [(None, DataError), (sqlite3.OperationalError("database is locked"), VaultAway)]
)
def test_a_separate_vault_says_that_records_cannot_be_read_and_not_what_is_wrong_with_them(
    tmp_path: Path, cause: Exception | None, told: type[Exception]
) -> None:
    home = Home(days=[10], over=10)
    vault, path = home.vault(), tmp_path / "v.sock"
    with serving(served(vault, "meter-17", home.ledger.budget), path):
        remote = RemoteVault(path, owner="meter-17", budget=home.ledger.budget, patience=1.0, waits=Waits())
        home.broken, home.cause = True, cause
        with pytest.raises(told, match="cannot currently read its records; see its log") as refused:
            remote.answer(query(0))
        assert "windows.db" not in str(refused.value)
        home.broken = False
        answer = remote.answer(query(0))
        assert not isinstance(answer, Refused)
        assert answer.units == 1
        remote.close()


@pytest.mark.parametrize("own", ["window", "device"])
def test_a_release_that_hides_the_device_is_of_no_day_that_has_not_come(own: str) -> None:
    home = Home([FIRST, FIRST + 1], None, ledger=Ledger.in_memory("meter-17", Budget(2.0, 1e-5, own, "add-remove")))
    if own == "window":
        home.ledger.take_up(Mandate(1, Budget(0.5, 1e-5, "device", "add-remove"), b"signed"))
    vault = home.vault()
    answer = vault.answer(query(0))
    assert isinstance(answer, Refused)
    assert answer.reason == "calendar"
    last = FIRST
    for slot in range(STEPS):
        home.over = last = FIRST + 2 * slot
        released(vault, slot)
        ahead = home.ledger.epsilon_spent(Units(((last + 1, last + 10_000),)))
        assert (ahead == 0) == (own == "window"), "where windows pay, those that are over do"
    first, newest = home.ledger.epsilon_spent(Units(((0, FIRST),))), home.ledger.epsilon_spent(Units(((last, last),)))
    assert (first > newest) == (own == "window")
    answer = vault.answer(query(STEPS))
    assert isinstance(answer, Refused)
    assert answer.reason == "budget"
    released(vault, 0)


@pytest.mark.parametrize("own", ["window", "device"])
@pytest.mark.parametrize("of_task", ["window", "device"])
def test_what_is_clipped_is_the_unit_of_the_task_however_many_days_there_are(
    own: str, of_task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if (own, of_task) == ("device", "window"):
        return  # no such task is taken up
    home = Home([10, 10, 11, 12], 12, ledger=Ledger.in_memory("meter-17", Budget(8.0, 1e-5, own, "add-remove")))
    home.ledger.take_up(Mandate(1, Budget(0.5, 1e-5, of_task, "add-remove"), b"signed"))
    rows: list[int] = []
    whole = DiscreteGaussian.apply

    def counted(
        mechanism: DiscreteGaussian, raw: Iterator[NDArray[np.float64]], noise: NoiseSource
    ) -> NDArray[np.int64]:
        held = list(raw)
        rows.append(sum(len(part) for part in held))
        return whole(mechanism, iter(held), noise)

    monkeypatch.setattr(DiscreteGaussian, "apply", counted)
    released(home.vault(), 0)
    assert rows == [3 if of_task == "window" else 1]
