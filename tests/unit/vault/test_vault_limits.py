"""Owner's limits for all tasks together in a month and a year: they hold for all tasks and clocks."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sottovoce.accounting.events import GaussianSum
from sottovoce.data import Records
from sottovoce.door import Query, Refused
from sottovoce.errors import ConfigError
from sottovoce.kernels.profile import Profile
from sottovoce.vault import Budget, Ledger, SeededNoise, build, read_policy
from sottovoce.vault.ledger_file import connect
from sottovoce.vault.life import DAY, RECORD_INTERVAL
from sottovoce.vault.limits import Span
from sottovoce.vault.mandate import Mandate
from sottovoce.vault.terms.means import MeanTerms

from tests.support.ledgers import SCHEMA_7
from tests.support.memory import memory_directory

OWNER = "meter-17"
LIFE = Budget(50.0, 1e-5, "device", "add-remove")
TASK = replace(LIFE, epsilon=1.0)
SUM = GaussianSum(50**2, 1000)


class Device:
    """One device's ledger under limits, with an uptime that the test moves."""

    def __init__(self, path: Path, most: Mapping[Span, float], own: Budget = LIFE) -> None:
        self.path, self.most, self.own, self.uptime = path, most, own, 1000.0
        self.epoch = self.number = 0
        Ledger.create(path, OWNER, own)
        self.start()

    def start(self) -> None:
        self.ledger = Ledger.open(self.path, OWNER, self.own)
        self.ledger.limit(self.most)
        self.ledger.start_counting(lambda: self.uptime)
        self.ledger.record_life()

    def restart(self, away: float = 0.0) -> None:
        self.ledger.close()
        self.uptime += away
        self.start()

    def lives(self, days: float) -> None:
        for _ in range(round(days * DAY / RECORD_INTERVAL)):
            self.uptime += RECORD_INTERVAL
            self.ledger.record_life()

    def take_up(self, task: Budget = TASK) -> None:
        self.epoch += 1
        self.ledger.take_up(Mandate(self.epoch, task, b"signed"))

    def charge(self) -> bool:
        self.number += 1
        return self.ledger.charge(self.number.to_bytes(32, "big"), SUM)

    def spends(self) -> int:
        """Charge until the budget is insufficient."""
        return next(count for count in range(10_000) if not self.charge())

    def under(self, span: str) -> float:
        return next(limit.epsilon for limit in self.ledger.spending().of_limits if limit.span == span)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    with memory_directory(tmp_path) as found:
        yield found


def test_thirteen_tasks_spend_at_most_the_year_s_limit(directory: Path) -> None:
    device = Device(directory / "ledger.db", {"year": 2.0})
    for _ in range(13):
        device.take_up()
        device.spends()
        device.restart()
    assert 1.9 < device.ledger.spending().epsilon <= 2.0
    device.lives(364)
    assert not device.charge()
    device.lives(1.1)
    assert device.charge(), "the next year allows the same amount"
    device.take_up()
    device.spends()
    device.take_up()
    device.spends()
    assert device.under("year") <= 2.0 < device.ledger.spending().epsilon


def test_the_first_reached_limit_counts(directory: Path) -> None:
    device = Device(directory / "ledger.db", {"month": 0.5, "year": 1.0})
    first = device.spends()
    assert 0 < device.under("month") <= 0.5
    assert device.ledger.blocking_limit(SUM) is not None
    months = 0
    while True:
        device.lives(30.1)
        if not (count := device.spends()):
            break
        months += 1
        assert count <= first
        assert device.under("month") <= 0.5
    assert 0 < months < 12
    assert 0.9 < device.under("year") <= 1.0
    reached = device.ledger.blocking_limit(SUM)
    assert reached is not None
    assert reached.span == "year"


@pytest.mark.parametrize("away", [400 * DAY, -900.0])
def test_time_without_a_running_vault_does_not_count(directory: Path, away: float) -> None:
    device = Device(directory / "ledger.db", {"month": 0.5})
    device.spends()
    device.lives(10)
    device.restart(away)
    assert not device.charge()
    device.lives(19)
    assert not device.charge()
    device.lives(2)
    assert device.charge()


def test_a_later_limit_counts_all_earlier_charges(directory: Path) -> None:
    device = Device(directory / "ledger.db", {})
    for _ in range(40):
        assert device.charge()
    before = device.ledger.spending().epsilon
    device.most = {"year": before}
    device.restart()
    assert device.under("year") == before
    assert not device.charge()


def test_a_limit_survives_a_kill_and_is_counted_from_its_beginning(directory: Path) -> None:
    device = Device(directory / "ledger.db", {"month": 0.5})
    device.lives(31)
    device.spends()
    with closing(Ledger.read(device.path)) as snapshot:  # another process's view
        snapshot.limit({"month": 0.5})
        (limit,) = snapshot.spending().of_limits
    assert limit.epsilon == device.under("month")
    assert limit.ends == pytest.approx(29 * DAY, abs=2 * RECORD_INTERVAL)


def test_a_limit_on_records_handles_each_task_s_numbering(directory: Path) -> None:
    own = Budget(50.0, 1e-5, "record", "add-remove")
    device = Device(directory / "ledger.db", {"year": 1.0}, own)
    for _ in range(13):
        device.take_up(replace(own, epsilon=0.6))
        device.spends()
    assert 0.9 < device.under("year") <= 1.0


def test_a_ledger_with_the_previous_schema_accepts_a_limit(directory: Path) -> None:
    device = Device(directory / "ledger.db", {})
    assert device.charge()
    device.ledger.close()
    with closing(connect(device.path, "rw")) as older:
        older.executescript(SCHEMA_7)
    device.most = {"year": 0.5}
    device.start()
    device.spends()
    assert device.under("year") <= 0.5


def test_a_refusal_states_the_limit_and_when_it_ends() -> None:
    ledger = Ledger.in_memory(OWNER, LIFE)
    ledger.limit({"month": 0.1})
    ledger.start_counting(lambda: 0.0)
    ledger.record_life()
    records = Records(np.ones((20, 1)), np.zeros(20, dtype=np.int64))
    terms = MeanTerms("average", Profile(1, 1.0))
    vault = build(records=records, kernel=None, terms=terms, ledger=ledger, noise=SeededNoise(1))
    refused = vault.answer(Query("average", "mean", 0, np.empty(0)))
    assert isinstance(refused, Refused)
    assert refused.reason == "task", "so the query is repeated"
    assert refused.explanation == "the owner's limit of ε = 0.1 per month has been reached: releases resume in 30 days"


def test_a_budget_without_a_guarantee_obeys_the_limit(directory: Path) -> None:
    device = Device(directory / "ledger.db", {"year": 1.0}, replace(LIFE, epsilon=None))
    device.spends()
    assert 0.9 < device.under("year") <= 1.0


@pytest.mark.parametrize("words", ["epsilon_per_year = 0", "epsilon_per_month = -1", "epsilon_per_week = 1"])
def test_an_invalid_policy_is_refused(tmp_path: Path, words: str) -> None:
    (tmp_path / "policy.toml").write_text(f'approve = "auto"\n{words}\n')
    with pytest.raises(ConfigError, match="epsilon_per"):
        read_policy(tmp_path / "policy.toml")


@pytest.mark.parametrize("most", [{}, {"year": 30.0}, {"year": 2.0}])
@pytest.mark.parametrize("a_day", [1, 3])
def test_the_predicted_end_of_the_budget_is_accurate_within_a_tenth(
    directory: Path, most: dict[Span, float], a_day: int
) -> None:
    own = replace(LIFE, epsilon=2.5 if not most else 50.0)
    device = Device(directory / "ledger.db", most, own)
    assert device.ledger.spending().lasts is None, "nothing is known yet"
    messages: list[tuple[int, float]] = []
    for day in range(365):
        device.lives(1)
        if not all(device.charge() for _ in range(a_day)):
            break
        lasts = device.ledger.spending().lasts
        if day >= 7:
            assert lasts is not None
            messages.append((day, day + 1 + lasts / DAY))
    else:
        assert all(end > 365 for _, end in messages), "it never reports the end too early"
        return
    assert all(abs(end - day) <= 0.1 * day + 1 for _, end in messages)
