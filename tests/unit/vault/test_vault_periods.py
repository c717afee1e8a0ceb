"""Renewal of a device's budget: by the fleet's signature and the vault's running time; never by one alone."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path

import numpy as np
import pytest
from sottovoce.data import Records
from sottovoce.errors import LedgerError, PrivacyError
from sottovoce.kernels.profile import Profile
from sottovoce.privacy.accounting.events import GaussianSum
from sottovoce.privacy.accounting.units import Units
from sottovoce.privacy.ledger.chain import first_link, next_link
from sottovoce.privacy.ledger.charge_totals import ChargeTotals
from sottovoce.privacy.ledger.clocks import RECORD_INTERVAL
from sottovoce.privacy.ledger.ledger_file import connect
from sottovoce.privacy.ledger.mandate import Mandate, Stamp, promise_from_budget
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.means import MeanTerms
from sottovoce.privacy.vault import Budget, Ledger, SeededNoise
from sottovoce.reports.account import Account, Charge, audit_account, build_account

from tests.support.ledgers import SCHEMA_5
from tests.support.memory import memory_directory

OWNER, DAY = "meter-17", 86_400.0
LIFE = Budget(0.5, 1e-5, "device", "add-remove")
SUM = GaussianSum(120**2, 1000)
"""Two of them are above ε = 0.5."""


class Device:
    """The ledger part of one device's vault, with an uptime that the test moves."""

    def __init__(self, path: Path) -> None:
        self.path, self.uptime = path, 1000.0
        Ledger.create(path, OWNER, LIFE)
        self.epoch = 0
        self.start()

    def start(self) -> None:
        self.ledger = Ledger.open(self.path, OWNER, LIFE)
        self.ledger.periods.allow_renewal("year")
        self.ledger.start_counting(lambda: self.uptime)
        self.ledger.record_running_time()

    def restart(self, away: float = 0.0) -> None:
        self.ledger.close()
        self.uptime += away
        self.start()

    def lives(self, days: float) -> None:
        """Let hours pass, one after another, as the vault's thread does."""
        for _ in range(round(days * DAY / RECORD_INTERVAL)):
            self.uptime += RECORD_INTERVAL
            self.ledger.record_running_time()

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


def test_the_fleet_s_signature_and_a_year_of_running_time_open_a_period(device: Device) -> None:
    device.told(0)
    spend(device)
    device.lives(366)
    assert not device.charge(1), "no signature by the fleet"
    device.told(1)
    assert device.charge(1)
    assert not device.charge(2), "one budget per period"
    spending = device.ledger.spending()
    assert spending.of_period is not None
    assert spending.of_period.period.number == 1
    assert spending.of_period.epsilon < 0.5 < spending.epsilon, "earlier releases still count"
    assert audit_account(build_account(device.ledger))[0].epsilon == spending.epsilon
    before = device.ledger.spending()
    device.restart()
    assert device.ledger.spending() == before
    assert not device.charge(2)


def test_the_signature_alone_opens_nothing_before_enough_running_time(device: Device) -> None:
    device.told(0)
    spend(device)
    device.told(9)
    assert not device.charge(1)
    device.told(10)
    assert not device.charge(1)
    device.lives(364)
    assert not device.charge(1)
    device.lives(1.1)
    assert device.charge(1), "then it opens automatically"
    device.told(11)
    assert not device.charge(2), "the next period has to wait as long"


@pytest.mark.parametrize("away", [400 * DAY, -900.0])
def test_time_without_a_running_vault_opens_and_blocks_nothing(device: Device, away: float) -> None:
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


def test_a_killed_vault_loses_at_most_an_hour_of_its_running_time(device: Device) -> None:
    device.told(1)
    device.lives(10)
    device.uptime += RECORD_INTERVAL - 1
    with closing(Ledger.read(device.path)) as snapshot:  # another process's view
        snapshot.periods.allow_renewal("year")
        snapshot.start_counting(lambda: 0.0)
        period = snapshot.periods.current_period(None)
    assert period is not None
    assert period.elapsed == 10 * DAY


def test_without_the_owner_s_permission_there_is_one_budget_for_life(tmp_path: Path) -> None:
    Ledger.create(tmp_path / "ledger.db", OWNER, LIFE)
    ledger = Ledger.open(tmp_path / "ledger.db", OWNER, LIFE)
    ledger.take_up(Mandate(1, LIFE, b"signed", 1))
    ledger.record_running_time()
    assert ledger.charge(bytes(32), SUM)
    assert not ledger.charge(bytes([1]) * 32, SUM)
    assert ledger.spending().of_period is None
    assert ledger._connection.execute("SELECT count(*) FROM lived").fetchone() == (0,)


def test_the_period_is_part_of_the_charge_s_link(device: Device) -> None:
    device.told(0)
    spend(device)
    device.lives(366)
    device.told(1)
    assert device.charge(1)
    account = build_account(device.ledger)
    assert '"period":1' in account.charges[1].stamp
    charges = list(account.charges)
    charges[1] = type(charges[1])(
        charges[1].query, charges[1].terms, charges[1].stamp.replace('"period":1', '"period":2')
    )
    fields = {name: getattr(account, name) for name in account.__struct_fields__}
    with pytest.raises(LedgerError, match=r"end.*link"):
        audit_account(type(account)(**fields | {"charges": tuple(charges)}))


@pytest.mark.parametrize("later, refused", [(0, True), (1, False)])
def test_an_account_that_spends_a_period_s_budget_twice_is_refused(later: int, *, refused: bool) -> None:
    """A forged ledger can have a valid chain, but its sum reveals it."""
    nonce, link, charges = bytes(16), first_link(LIFE.canonical_json(OWNER), bytes(16)), []
    for number, period in enumerate((0, later)):
        query, stamp = bytes([number]) * 32, Mandate(number + 1, LIFE).stamp(period)
        link = next_link(link, query, SUM.terms + stamp)
        charges.append(Charge(query.hex(), SUM.terms, stamp))
    account = Account(
        owner=OWNER, epsilon=0.5, delta=1e-5, unit="device", neighbouring="add-remove", nonce=nonce.hex(),
        charges=tuple(charges), link=link.hex(), releases=2,
    )  # fmt: skip
    with pytest.raises(LedgerError, match=r"budget of 0\.5") if refused else nullcontext():
        audit_account(account)


@pytest.mark.parametrize("table", ["period", "task"])
def test_a_period_s_opening_is_never_changed(device: Device, table: str) -> None:
    device.told(0)
    device.lives(366)
    device.told(1)
    number = {"period": "number", "task": "period"}[table]
    for statement in (f"UPDATE {table} SET {number} = 7", f"DELETE FROM {table}"):
        with pytest.raises(sqlite3.Error, match="append only"):
            device.ledger._connection.execute(statement)


def test_a_ledger_with_the_previous_schema_counts_as_the_first_period(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    Ledger.create(path, OWNER, LIFE)
    ledger = Ledger.open(path, OWNER, LIFE)
    ledger.take_up(Mandate(1, LIFE, b"signed"))
    assert ledger.charge(bytes(32), SUM)
    ledger.close()
    with closing(connect(path, "rw")) as older:
        older.executescript(SCHEMA_5)
    reopened = Ledger.open(path, OWNER, LIFE)
    reopened.start_counting(lambda: 0.0)
    reopened.periods.allow_renewal("year")
    reopened.record_running_time()
    spending = reopened.spending()
    assert spending.of_period is not None
    assert spending.of_period.epsilon == spending.epsilon
    assert not reopened.charge(bytes([1]) * 32, SUM)


def test_an_earlier_period_s_stamp_is_refused(device: Device) -> None:
    device.told(0)
    device.lives(366)
    device.told(1)
    assert device.charge()
    with pytest.raises(PrivacyError, match=r"period 0.*period 1"):
        device.ledger._spent.add(SUM, Mandate(2, LIFE).stamp(0))


def test_a_charge_has_the_paying_period_s_stamp_and_not_the_task_s(device: Device) -> None:
    """A task for period 9 is activated while period 0 is open: period 0 pays for releases in the meantime."""
    device.told(9)
    assert device.charge()
    (charge,) = device.ledger.charges()
    assert Stamp(1, promise_from_budget(LIFE), 0).text == charge[2]
    assert '"period"' not in charge[2]


def test_a_new_task_renumbers_a_period_s_account() -> None:
    """After a task change, no number shows which record was charged: each counts as the most expensive, in each sum."""
    budget = Budget(0.5, 1e-5, "record", "add-remove")
    one, other = (GaussianSum(120**2, 1000, Units((span,))) for span in ((0, 4), (5, 9)))
    spent = ChargeTotals(budget, None)
    spent.begin_task(Mandate(1, budget))
    spent.begin_period(1)
    spent.add(one, Mandate(1, budget).stamp(1))
    assert spent.payable_units(other) == other.units
    spent.begin_task(Mandate(2, budget))
    assert spent.payable_units(other) is None, "any record may have been charged already"


@pytest.mark.slow
def test_a_statement_mentions_that_its_budget_renews(device: Device) -> None:
    """After three periods, the ledger's total exceeds the statement's ε, which covers one period."""
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
