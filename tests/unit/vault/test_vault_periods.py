"""Renewal of a device's budget: by the fleet's signature and by time that its vault has run; never by one alone."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path

import numpy as np
import pytest
from sottovoce.accounting.events import GaussianSum
from sottovoce.accounting.units import Units
from sottovoce.data import Records
from sottovoce.errors import LedgerError, PrivacyError
from sottovoce.kernels.profile import Profile
from sottovoce.vault import Budget, Ledger, SeededNoise, build
from sottovoce.vault.account import Account, Charge, account_of, audit_account
from sottovoce.vault.chain import first_link, next_link
from sottovoce.vault.ledger_file import connect
from sottovoce.vault.life import RECORD_INTERVAL
from sottovoce.vault.mandate import Mandate, Stamp, promise_of
from sottovoce.vault.spent import ChargeTotals
from sottovoce.vault.terms.means import MeanTerms

from tests.support.ledgers import SCHEMA_5
from tests.support.memory import memory_directory

OWNER, DAY = "meter-17", 86_400.0
LIFE = Budget(0.5, 1e-5, "device", "add-remove")
SUM = GaussianSum(120**2, 1000)
"""Two of them are above ε = 0.5."""


class Device:
    """One device's vault, as far as its ledger goes, by an uptime that the test moves."""

    def __init__(self, path: Path) -> None:
        self.path, self.uptime = path, 1000.0
        Ledger.create(path, OWNER, LIFE)
        self.epoch = 0
        self.start()

    def start(self) -> None:
        self.ledger = Ledger.open(self.path, OWNER, LIFE)
        self.ledger.periods.allow_renewal("year")
        self.ledger.start_counting(lambda: self.uptime)
        self.ledger.record_life()

    def restart(self, away: float = 0.0) -> None:
        self.ledger.close()
        self.uptime += away
        self.start()

    def lives(self, days: float) -> None:
        """An hour after the other, as the vault's thread does it."""
        for _ in range(round(days * DAY / RECORD_INTERVAL)):
            self.uptime += RECORD_INTERVAL
            self.ledger.record_life()

    def told(self, period: int) -> None:
        self.epoch += 1
        self.ledger.take_up(Mandate(self.epoch, LIFE, b"signed", period))

    def charge(self, number: int = 0) -> bool:
        return self.ledger.charge(bytes([number]) * 32, SUM)


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Device]:
    with memory_directory(tmp_path) as directory:  # a year has 8,760 notes
        yield Device(directory / "ledger.db")


def spend(device: Device) -> None:
    assert device.charge()
    assert not device.charge(1)


def test_the_fleet_s_word_and_a_year_s_life_open_a_period(device: Device) -> None:
    device.told(0)
    spend(device)
    device.lives(366)
    assert not device.charge(1), "no word of the fleet's"
    device.told(1)
    assert device.charge(1)
    assert not device.charge(2), "one budget a period"
    spending = device.ledger.spending()
    assert spending.of_period is not None
    assert spending.of_period.period.number == 1
    assert spending.of_period.epsilon < 0.5 < spending.epsilon, "what was released is not forgotten"
    assert audit_account(account_of(device.ledger))[0].epsilon == spending.epsilon
    before = device.ledger.spending()
    device.restart()
    assert device.ledger.spending() == before
    assert not device.charge(2)


def test_the_word_alone_opens_nothing_until_the_vault_has_lived_so_long(device: Device) -> None:
    device.told(0)
    spend(device)
    device.told(9)
    assert not device.charge(1)
    device.told(10)
    assert not device.charge(1)
    device.lives(364)
    assert not device.charge(1)
    device.lives(1.1)
    assert device.charge(1), "and then it opens by itself"
    device.told(11)
    assert not device.charge(2), "the next one has to wait as long again"


@pytest.mark.parametrize("away", [400 * DAY, -900.0])
def test_time_in_which_the_vault_was_not_at_work_opens_and_locks_nothing(device: Device, away: float) -> None:
    device.told(0)
    spend(device)
    device.told(1)
    device.lives(200)
    device.restart(away)
    assert not device.charge(1)
    device.lives(164)
    assert not device.charge(1)
    device.lives(2)
    assert device.charge(1)


def test_a_vault_that_is_killed_forgets_an_hour_of_its_life_at_most(device: Device) -> None:
    device.told(1)
    device.lives(10)
    device.uptime += RECORD_INTERVAL - 1
    with closing(Ledger.read(device.path)) as left:  # what another process finds
        left.periods.allow_renewal("year")
        left.start_counting(lambda: 0.0)
        period = left.periods.current_period(None)
    assert period is not None
    assert period.lived == 10 * DAY


def test_without_the_owner_s_word_there_is_one_budget_for_life(tmp_path: Path) -> None:
    Ledger.create(tmp_path / "ledger.db", OWNER, LIFE)
    ledger = Ledger.open(tmp_path / "ledger.db", OWNER, LIFE)
    ledger.take_up(Mandate(1, LIFE, b"signed", 1))
    ledger.record_life()
    assert ledger.charge(bytes(32), SUM)
    assert not ledger.charge(bytes([1]) * 32, SUM)
    assert ledger.spending().of_period is None
    assert ledger._connection.execute("SELECT count(*) FROM lived").fetchone() == (0,)


def test_the_period_stands_in_the_link_of_the_charge(device: Device) -> None:
    device.told(0)
    spend(device)
    device.lives(366)
    device.told(1)
    assert device.charge(1)
    account = account_of(device.ledger)
    assert '"period":1' in account.charges[1].stamp
    charges = list(account.charges)
    charges[1] = type(charges[1])(
        charges[1].query, charges[1].terms, charges[1].stamp.replace('"period":1', '"period":2')
    )
    fields = {name: getattr(account, name) for name in account.__struct_fields__}
    with pytest.raises(LedgerError, match="does not end at its link"):
        audit_account(type(account)(**fields | {"charges": tuple(charges)}))


@pytest.mark.parametrize("later, refused", [(0, True), (1, False)])
def test_an_account_that_spends_a_period_s_budget_twice_is_refused(later: int, *, refused: bool) -> None:
    """Anyone who forges a ledger has its chain right; the sum tells."""
    nonce, link, charges = bytes(16), first_link(LIFE.canonical_json(OWNER), bytes(16)), []
    for number, period in enumerate((0, later)):
        query, stamp = bytes([number]) * 32, Mandate(number + 1, LIFE).stamp(period)
        link = next_link(link, query, SUM.terms + stamp)
        charges.append(Charge(query.hex(), SUM.terms, stamp))
    account = Account(
        owner=OWNER, epsilon=0.5, delta=1e-5, unit="device", neighbouring="add-remove", nonce=nonce.hex(),
        charges=tuple(charges), link=link.hex(), releases=2,
    )  # fmt: skip
    with pytest.raises(LedgerError, match=r"exceeds its budget of 0\.5") if refused else nullcontext():
        audit_account(account)


@pytest.mark.parametrize("table", ["period", "task"])
def test_what_opened_a_period_is_never_changed(device: Device, table: str) -> None:
    device.told(0)
    device.lives(366)
    device.told(1)
    number = {"period": "number", "task": "period"}[table]
    for statement in (f"UPDATE {table} SET {number} = 7", f"DELETE FROM {table}"):
        with pytest.raises(sqlite3.Error, match="append only"):
            device.ledger._connection.execute(statement)


def test_a_ledger_of_the_schema_before_counts_as_the_first_period(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    Ledger.create(path, OWNER, LIFE)
    ledger = Ledger.open(path, OWNER, LIFE)
    ledger.take_up(Mandate(1, LIFE, b"signed"))
    assert ledger.charge(bytes(32), SUM)
    ledger.close()
    with closing(connect(path, "rw")) as older:
        older.executescript(SCHEMA_5)
    again = Ledger.open(path, OWNER, LIFE)
    again.start_counting(lambda: 0.0)
    again.periods.allow_renewal("year")
    again.record_life()
    spending = again.spending()
    assert spending.of_period is not None
    assert spending.of_period.epsilon == spending.epsilon
    assert not again.charge(bytes([1]) * 32, SUM)


def test_a_stamp_of_a_period_before_is_no_charge(device: Device) -> None:
    device.told(0)
    device.lives(366)
    device.told(1)
    assert device.charge()
    with pytest.raises(PrivacyError, match="a charge for period 0 follows one for period 1"):
        device.ledger._spent.add(SUM, Mandate(2, LIFE).stamp(0))


def test_a_charge_is_stamped_with_the_period_that_pays_not_with_the_task_s(device: Device) -> None:
    """A task of period 9 is taken up while period 0 is open: what is released meanwhile is paid by period 0."""
    device.told(9)
    assert device.charge()
    (charge,) = device.ledger.charges()
    assert Stamp(1, promise_of(LIFE), 0).text == charge[2]
    assert '"period"' not in charge[2]


def test_a_period_s_account_is_renumbered_with_a_new_task() -> None:
    """After a change of the task no number says which record has paid: each counts as the dearest, in each sum."""
    budget = Budget(0.5, 1e-5, "record", "add-remove")
    one, other = (GaussianSum(120**2, 1000, Units((span,))) for span in ((0, 4), (5, 9)))
    spent = ChargeTotals(budget, None)
    spent.begin(Mandate(1, budget))
    spent.open(1)
    spent.add(one, Mandate(1, budget).stamp(1))
    assert spent.payable(other) == other.units
    spent.begin(Mandate(2, budget))
    assert spent.payable(other) is None, "any record may have paid already"


def test_a_statement_says_that_its_budget_renews(device: Device) -> None:
    """After three periods the ledger's total is more than the statement's ε, which is of one period."""
    for period in range(3):
        device.told(period)
        device.lives(366 if period else 0)
        assert device.charge(period)
    spending = device.ledger.spending()
    vault = build(
        records=Records(np.zeros((1, 2)), np.zeros(1, dtype=np.int64)),
        kernel=None,
        terms=MeanTerms("average", Profile(2, 1.0)),
        ledger=device.ledger,
        noise=SeededNoise(0),
    )
    assert vault.statement.epsilon == 0.5
    assert spending.epsilon > 0.6
    assert (
        "ε is for one budget period, which lasts at least 365 days; the ε of all periods add up"
        in vault.statement.composition
    )
    once = Ledger.in_memory(OWNER, LIFE)
    assert "period" not in _stated(once)


def _stated(ledger: Ledger) -> str:
    terms = MeanTerms("average", Profile(2, 1.0))
    records = Records(np.zeros((1, 2)), np.zeros(1, dtype=np.int64))
    vault = build(records=records, kernel=None, terms=terms, ledger=ledger, noise=SeededNoise(0))
    return vault.statement.composition
