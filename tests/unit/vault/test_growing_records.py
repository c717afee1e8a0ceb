"""Records that grow while their vault is open: a window is charged once finished, and not before."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.data import Records
from sottovoce.errors import DataError, VaultAway
from sottovoce.kernels.softmax import Softmax
from sottovoce.node.waits import Waits
from sottovoce.privacy.accounting.units import Units
from sottovoce.privacy.api import Query, Refused, Release
from sottovoce.privacy.ledger.mandate import Mandate
from sottovoce.privacy.mechanisms.clipped_sum import DiscreteGaussian
from sottovoce.privacy.mechanisms.noise import NoiseSource
from sottovoce.privacy.rpc.remote import RemoteVault
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.gradients import GradientTerms
from sottovoce.privacy.vault import Budget, GrowingRecords, Ledger, OperatingSystemNoise, Vault

from tests.support.vaults import make_served, serve_vault

KERNEL = Softmax(3, 4)
STEPS = 3
FIRST, LAST = 10, 19


@dataclass
class Home:
    """A meter and the date.

    Attributes:
        days: the day of each stored record.
        last_complete_day: the most recent complete day.
        reads: how often the records were read.
        is_broken: whether reading the records fails.
        cause: cause of that failure, if any.
    """

    days: list[int]
    last_complete_day: int | None
    reads: int = 0
    is_broken: bool = False
    cause: Exception | None = None
    ledger: Ledger = field(
        default_factory=lambda: Ledger.in_memory("meter-17", Budget(2.0, 1e-5, "window", "add-remove"))
    )

    def records(self) -> Records:
        self.reads += 1
        if self.is_broken:
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
            growing_records=GrowingRecords(self.records, lambda: self.last_complete_day),
        )

    def charged(self, slot: int) -> Units | None:
        event = self.ledger.charged_event(query(slot).id)
        return None if event is None else event.units


def query(slot: int) -> Query:
    return Query("clipd2p", "gradient", slot, np.zeros(KERNEL.size))


def get_release(vault: Vault, slot: int) -> Release:
    answer = vault.answer(query(slot))
    assert not isinstance(answer, Refused), answer
    return answer


def reason(vault: Vault, slot: int) -> str:
    answer = vault.answer(query(slot))
    assert isinstance(answer, Refused)
    return answer.reason


def test_exactly_the_completed_days_are_charged_whether_or_not_they_have_records() -> None:
    home = Home(days=[11, 11, 12, 14], last_complete_day=12)
    vault = home.vault()
    assert get_release(vault, 0).units == 3
    assert home.charged(0) == Units(((FIRST, 12),)), "day 10 is empty and charged; day 14 has not ended"
    home.last_complete_day = 13
    assert get_release(vault, 1).units == 4
    home.last_complete_day = LAST + 40
    assert get_release(vault, 2).units == LAST - FIRST + 1, "no day after the last permitted one"
    assert home.ledger.epsilon_spent(Units(((LAST + 1, LAST + 1),))) == 0.0


@pytest.mark.parametrize("last_complete_day", [None, FIRST - 1, -1])
def test_before_a_day_is_complete_nothing_is_charged(last_complete_day: int | None) -> None:
    home = Home(days=[10, 11], last_complete_day=last_complete_day)
    assert reason(home.vault(), 0) == "calendar"
    assert home.ledger.spending().charges == 0


def test_a_new_day_is_read_without_a_restart_and_pays_for_itself(read_windows: list[int]) -> None:
    home = Home(days=[10, 11], last_complete_day=11)
    vault = home.vault()
    for slot in range(STEPS):
        get_release(vault, slot)
    spent = home.ledger.spending().epsilon
    assert reason(vault, STEPS) == "budget", "the completed days have been charged"
    assert home.ledger.spending().charges == STEPS
    home.days, home.last_complete_day = [10, 11, 12, 12, 13], 12
    read_windows.clear()
    assert get_release(vault, STEPS).units == 1
    assert read_windows == [12, 12], "exactly the charged records are read"
    assert home.charged(STEPS) == Units(((12, 12),))
    assert home.ledger.spending().epsilon == spent, "the earlier days were charged most"


@pytest.mark.parametrize("jump", [-400, -2, 400])
def test_a_clock_change_neither_renews_a_day_nor_blocks_later_ones(jump: int) -> None:
    home = Home(days=list(range(FIRST, LAST + 1)), last_complete_day=12)
    vault = home.vault()
    for slot in range(STEPS):
        get_release(vault, slot)
    home.last_complete_day = 12 + jump
    for slot in range(STEPS, STEPS + 2):
        vault.answer(query(slot))
    for day in range(FIRST, LAST + 1):
        assert home.ledger.epsilon_spent(Units(((day, day),))) <= 2.0
    home.last_complete_day = 14
    assert get_release(vault, STEPS + 2).units == 2, "days 13 and 14, whatever the clock had shown"


def test_unreadable_records_are_not_charged_and_the_query_is_answered_later() -> None:
    home = Home(days=[10], last_complete_day=10)
    vault = home.vault()
    home.is_broken = True
    with pytest.raises(DataError):
        vault.answer(query(0))
    assert home.ledger.spending().charges == 0
    home.is_broken = False
    first = get_release(vault, 0)
    reads, home.last_complete_day, home.is_broken = home.reads, 15, True
    repeated = get_release(vault, 0)
    assert (repeated.value == first.value).all(), "an earlier answer is repeated from the ledger"
    assert (repeated.units, home.reads) == (first.units, reads)


def test_a_charge_with_a_lost_release_pays_for_its_own_days_after_others_have_ended(
    monkeypatch: pytest.MonkeyPatch, read_windows: list[int]
) -> None:
    home = Home(days=[10, 11, 12], last_complete_day=11)
    vault = home.vault()
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "store", lambda *_: (_ for _ in ()).throw(OSError("a power cut")))
        with pytest.raises(OSError, match="power cut"):
            vault.answer(query(0))
    home.last_complete_day = 12
    read_windows.clear()
    assert get_release(vault, 0).units == 2
    assert read_windows == [10, 11]
    assert home.ledger.spending().charges == 1


@pytest.mark.parametrize(
    "cause, error", [(None, DataError), (sqlite3.OperationalError("database is locked"), VaultAway)]
)
def test_a_separate_vault_reports_unreadable_records_without_details(
    tmp_path: Path, cause: Exception | None, error: type[Exception]
) -> None:
    home = Home(days=[10], last_complete_day=10)
    vault, path = home.vault(), tmp_path / "v.sock"
    with serve_vault(make_served(vault, "meter-17", home.ledger.budget), path):
        remote = RemoteVault(path, owner="meter-17", budget=home.ledger.budget, patience=1.0, waits=Waits())
        home.is_broken, home.cause = True, cause
        with pytest.raises(error, match=r"records.*log") as refused:
            remote.answer(query(0))
        assert "windows.db" not in str(refused.value)
        home.is_broken = False
        answer = remote.answer(query(0))
        assert not isinstance(answer, Refused)
        assert answer.units == 1
        remote.close()


@pytest.mark.parametrize("ledger_unit", ["window", "device"])
def test_a_device_level_release_includes_no_future_day(ledger_unit: str) -> None:
    home = Home(
        [FIRST, FIRST + 1], None, ledger=Ledger.in_memory("meter-17", Budget(2.0, 1e-5, ledger_unit, "add-remove"))
    )
    if ledger_unit == "window":
        home.ledger.take_up(Mandate(1, Budget(0.5, 1e-5, "device", "add-remove"), b"signed"))
    vault = home.vault()
    answer = vault.answer(query(0))
    assert isinstance(answer, Refused)
    assert answer.reason == "calendar"
    last = FIRST
    for slot in range(STEPS):
        home.last_complete_day = last = FIRST + 2 * slot
        get_release(vault, slot)
        ahead = home.ledger.epsilon_spent(Units(((last + 1, last + 10_000),)))
        assert (ahead == 0) == (ledger_unit == "window"), "if windows are charged, the completed ones are"
    first, newest = home.ledger.epsilon_spent(Units(((0, FIRST),))), home.ledger.epsilon_spent(Units(((last, last),)))
    assert (first > newest) == (ledger_unit == "window")
    answer = vault.answer(query(STEPS))
    assert isinstance(answer, Refused)
    assert answer.reason == "budget"
    get_release(vault, 0)


@pytest.mark.parametrize("ledger_unit", ["window", "device"])
@pytest.mark.parametrize("task_unit", ["window", "device"])
def test_the_task_s_unit_is_clipped_however_many_days_there_are(
    ledger_unit: str, task_unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if (ledger_unit, task_unit) == ("device", "window"):
        return  # such a task is never activated
    home = Home([10, 10, 11, 12], 12, ledger=Ledger.in_memory("meter-17", Budget(8.0, 1e-5, ledger_unit, "add-remove")))
    home.ledger.take_up(Mandate(1, Budget(0.5, 1e-5, task_unit, "add-remove"), b"signed"))
    rows: list[int] = []
    full = DiscreteGaussian.apply

    def count_rows(
        mechanism: DiscreteGaussian, raw: Iterator[NDArray[np.float64]], noise: NoiseSource
    ) -> NDArray[np.int64]:
        stored = list(raw)
        rows.append(sum(len(part) for part in stored))
        return full(mechanism, iter(stored), noise)

    monkeypatch.setattr(DiscreteGaussian, "apply", count_rows)
    get_release(home.vault(), 0)
    assert rows == [3 if task_unit == "window" else 1]
