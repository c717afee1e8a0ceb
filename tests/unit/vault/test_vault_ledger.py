"""Ledger: created once, opened by one process, appended to, never above its budget."""

import math
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from sottovoce.errors import LedgerError, PrivacyError
from sottovoce.privacy.accounting.events import GaussianSum
from sottovoce.privacy.accounting.gaussian import gaussian_delta, gaussian_epsilon
from sottovoce.privacy.ledger.budget import StoredRelease
from sottovoce.privacy.mechanisms.clipped_sum import calibrate
from sottovoce.privacy.vault import Budget, Ledger

OWNER = "meter-17"
RELEASE = StoredRelease(-3, b"\x01" * 16, False)


@pytest.fixture
def ledger(path: Path, budget: Budget) -> Iterator[Ledger]:
    opened = Ledger.open(path, OWNER, budget)
    yield opened
    opened.close()


def query(number: int) -> bytes:
    return number.to_bytes(32, "big")


def test_a_new_ledger_is_empty_and_private(path: Path, ledger: Ledger) -> None:
    spending = ledger.spending()
    assert (spending.epsilon, spending.charges, spending.releases) == (0.0, 0, 0)
    assert path.stat().st_mode & 0o777 == 0o600


def test_written_charges_survive_a_restart(path: Path, budget: Budget) -> None:
    first = Ledger.open(path, OWNER, budget)
    assert first.charge(query(1), GaussianSum(100, 1000))
    first.store(query(1), RELEASE)
    first.close()
    second = Ledger.open(path, OWNER, budget)
    assert second.stored_release(query(1)) == RELEASE
    assert second.stored_release(query(2)) is None
    assert second.spending().charges == 1
    second.close()


def test_a_charge_is_on_disk_when_charge_returns(path: Path, ledger: Ledger) -> None:
    ledger.charge(query(1), GaussianSum(100, 1000))
    reader = Ledger.read(path)
    assert reader.owner == OWNER
    assert reader.spending().charges == 1
    reader.close()


def test_charges_are_synchronous_in_a_write_ahead_log(ledger: Ledger) -> None:
    assert ledger._connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert ledger._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_ledger_is_never_replaced(path: Path, budget: Budget) -> None:
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="never replaced"):
        Ledger.create(path, OWNER, budget)
    assert path.read_bytes() == before


def test_a_ledger_is_not_created_next_to_an_earlier_one_s_log(tmp_path: Path, budget: Budget) -> None:
    """SQLite would apply the old log to the new file."""
    location = tmp_path / "ledger.db"
    location.with_name("ledger.db-wal").write_bytes(b"charges")
    with pytest.raises(LedgerError, match="never replaced"):
        Ledger.create(location, OWNER, budget)


def test_a_crashed_draft_blocks_no_creation(tmp_path: Path, budget: Budget) -> None:
    location = tmp_path / "ledger.db"
    location.with_name("ledger.db.new").write_bytes(b"half")
    Ledger.create(location, OWNER, budget)
    Ledger.open(location, OWNER, budget).close()


@pytest.mark.parametrize("name", ["a b", "50%25", "what?mode=ro", "mode=rw", "#1", "ü"])
def test_any_path_is_accepted(tmp_path: Path, budget: Budget, name: str) -> None:
    location = tmp_path / name / "ledger.db"
    location.parent.mkdir()
    Ledger.create(location, OWNER, budget)
    opened = Ledger.open(location, OWNER, budget)
    assert opened.charge(query(1), GaussianSum(100, 1000))
    reader = Ledger.read(location)
    assert reader.spending().charges == 1
    with pytest.raises(LedgerError):
        reader.charge(query(2), GaussianSum(100, 1000))
    reader.close()
    opened.close()


@pytest.mark.parametrize(
    "epsilon, delta, unit, neighbouring",
    [
        (3.0, 1e-5, "record", "add-remove"),
        (None, 1e-5, "record", "add-remove"),
        (2.0, 1e-6, "record", "add-remove"),
        (2.0, 1e-5, "window", "add-remove"),
        (2.0, 1e-5, "record", "replace-one"),
    ],
)
def test_another_budget_is_refused(
    path: Path, epsilon: float | None, delta: float, unit: str, neighbouring: str
) -> None:
    with pytest.raises(LedgerError, match="created"):
        Ledger.open(path, OWNER, Budget(epsilon, delta, unit, neighbouring))


def test_another_device_is_refused(path: Path, budget: Budget) -> None:
    with pytest.raises(LedgerError, match="meter-17"):
        Ledger.open(path, "meter-18", budget)
    Ledger.open(path, OWNER, budget).close()  # the refusal has released the lock


@pytest.mark.parametrize(
    "epsilon, delta",
    [(0.0, 1e-5), (-1.0, 1e-5), (501.0, 1e-5), (math.inf, 1e-5), (math.nan, 1e-5), (1.0, 0.0), (1.0, 1.0), (None, 2.0)],
)
def test_a_budget_without_a_guarantee_cannot_be_created(epsilon: float | None, delta: float) -> None:
    with pytest.raises(PrivacyError):
        Budget(epsilon, delta, "record", "add-remove")


def test_a_second_writer_is_refused_and_a_reader_is_not(path: Path, ledger: Ledger, budget: Budget) -> None:
    link = path.with_name("link.db")
    link.symlink_to(path)
    for location in (path, link):
        with pytest.raises(LedgerError, match="stop"):
            Ledger.open(location, OWNER, budget)
    Ledger.read(path).close()
    ledger.close()
    Ledger.open(path, OWNER, budget).close()


def test_reading_changes_nothing(path: Path, budget: Budget) -> None:
    opened = Ledger.open(path, OWNER, budget)
    opened.charge(query(1), GaussianSum(100, 1000))
    opened.store(query(1), RELEASE)
    opened.close()
    before = path.read_bytes()
    for _ in range(2):
        reader = Ledger.read(path)
        reader.spending()
        reader.stored_release(query(1))
        with pytest.raises(LedgerError):
            reader.charge(query(2), GaussianSum(100, 1000))
        with pytest.raises(LedgerError):
            reader.store(query(1), RELEASE)
        reader.close()
    assert path.read_bytes() == before


@pytest.mark.parametrize("table", ["charge", "release", "budget"])
@pytest.mark.parametrize("change", ["UPDATE {} SET rowid = 9", "DELETE FROM {}"])
def test_written_rows_cannot_be_changed(ledger: Ledger, table: str, change: str) -> None:
    ledger.charge(query(1), GaussianSum(100, 1000))
    ledger.store(query(1), RELEASE)
    with pytest.raises(sqlite3.IntegrityError, match="append only"):
        ledger._connection.execute(change.format(table))


def test_a_query_is_charged_once(ledger: Ledger) -> None:
    for _ in range(3):
        assert ledger.charge(query(1), GaussianSum(100, 1000))
    assert ledger.spending().charges == 1


@pytest.mark.parametrize("terms", [(100, 999), (101, 1000), (1, 0), (100, 1001)])
def test_a_charge_pays_only_for_its_own_terms(ledger: Ledger, terms: tuple[int, int]) -> None:
    """A device that died between charge and release may return with another clip, or without one."""
    ledger.charge(query(1), GaussianSum(100, 1000))
    with pytest.raises(LedgerError, match="different terms"):
        ledger.charge(query(1), GaussianSum(*terms))
    assert ledger.spending().charges == 1


@pytest.mark.parametrize("terms", [(0, 1000), (-100, 1000), (100, -5)])
def test_a_charge_has_a_cost(ledger: Ledger, terms: tuple[int, int]) -> None:
    with pytest.raises(PrivacyError):
        ledger.charge(query(1), GaussianSum(*terms))
    assert ledger.spending().charges == 0


def test_a_release_needs_its_charge_and_is_stored_once(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="charge"):
        ledger.store(query(1), RELEASE)
    ledger.charge(query(1), GaussianSum(100, 1000))
    ledger.store(query(1), RELEASE)
    with pytest.raises(LedgerError):
        ledger.store(query(1), StoredRelease(-3, b"\x02" * 16, False))
    assert ledger.stored_release(query(1)) == RELEASE


@pytest.mark.parametrize("neighbouring", ["add-remove", "replace-one"])
@pytest.mark.parametrize("epsilon, releases", [(2.0, 1), (2.0, 60), (0.5, 7), (100.0, 250)])
def test_the_budget_pays_for_exactly_the_covered_releases(epsilon: float, releases: int, neighbouring: str) -> None:
    budget = Budget(epsilon, 1e-5, "record", neighbouring)
    ledger = Ledger.in_memory(OWNER, budget)
    mechanism = calibrate(clip=1.0, size=10, releases=releases, epsilon=epsilon, delta=1e-5, neighbouring=neighbouring)
    event = mechanism.event
    paid = 0
    while ledger.charge(query(paid), event):
        paid += 1
        assert ledger.spending().epsilon <= epsilon
    mu = [math.sqrt(count * event.mu_squared) for count in (paid, paid + 1)]
    assert gaussian_delta(epsilon, mu[0]) <= 1e-5 < gaussian_delta(epsilon, mu[1])
    assert paid == releases
    before = ledger.spending()
    for number in range(5):
        assert not ledger.charge(query(10_000 + number), event)
    assert ledger.spending() == before
    assert before.charges == paid
    ledger.close()


def test_a_cheaper_release_may_still_fit(ledger: Ledger) -> None:
    assert not ledger.charge(query(1), GaussianSum(10**6, 100))
    assert ledger.charge(query(2), GaussianSum(10**6, 4000))
    assert not ledger.charge(query(3), GaussianSum(10**6, 1000))


def test_spending_matches_the_accountant(ledger: Ledger) -> None:
    for number in range(4):
        assert ledger.charge(query(number), GaussianSum(10**6, 5000))
    assert ledger.charge(query(9), GaussianSum(10**4, 900))
    mu = math.sqrt(4 * 10**6 / (5000**2 - 16) + 10**4 / (900**2 - 16))
    assert ledger.spending().epsilon == pytest.approx(gaussian_epsilon(mu, 1e-5), rel=1e-12)


@pytest.mark.parametrize("sigma", [0, 1, 4])
def test_nearly_noise_free_charges_need_an_unlimited_budget(ledger: Ledger, sigma: int) -> None:
    assert not ledger.charge(query(1), GaussianSum(1, sigma))
    unlimited = Ledger.in_memory(OWNER, Budget(None, 1e-5, "record", "add-remove"))
    assert unlimited.charge(query(1), GaussianSum(1, sigma))
    assert unlimited.spending().epsilon == math.inf
    unlimited.close()
