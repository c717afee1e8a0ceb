"""Owner's limits for all tasks together in a month and a year: they hold for all tasks and clocks."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sottovoce.data import Records
from sottovoce.errors import ConfigError
from sottovoce.kernels.profile import Profile
from sottovoce.privacy.accounting.events import GaussianSum
from sottovoce.privacy.api import Query, Refused
from sottovoce.privacy.ledger.clocks import DAY, RECORD_INTERVAL
from sottovoce.privacy.ledger.ledger_file import connect
from sottovoce.privacy.ledger.limits import Span
from sottovoce.privacy.ledger.mandate import Mandate
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.means import MeanTerms
from sottovoce.privacy.vault import Budget, Ledger, SeededNoise, read_policy

from tests.support.ledgers import SCHEMA_7
from tests.support.memory import memory_directory

OWNER = "meter-17"
LIFE = Budget(50.0, 1e-5, "device", "add-remove")
TASK = replace(LIFE, epsilon=1.0)
SUM = GaussianSum(50**2, 1000)


class Device:
    """One device's ledger under limits, with an uptime that the test moves."""

    def __init__(self, path: Path, limits: Mapping[Span, float], budget: Budget = LIFE) -> None:
        self.path, self.limits, self.budget, self.uptime = path, limits, budget, 1000.0
        self.epoch = self.number = 0
        Ledger.create(path, OWNER, budget)
        self.start()

    def start(self) -> None:
        self.ledger = Ledger.open(self.path, OWNER, self.budget)
        self.ledger.set_limits(self.limits)
        self.ledger.start_counting(lambda: self.uptime)
        self.ledger.record_running_time()

    def restart(self, seconds_off: float = 0.0) -> None:
        self.ledger.close()
        self.uptime += seconds_off
        self.start()

    def run_for_days(self, days: float) -> None:
        for _ in range(round(days * DAY / RECORD_INTERVAL)):
            self.uptime += RECORD_INTERVAL
            self.ledger.record_running_time()

    def take_up(self, task: Budget = TASK) -> None:
        self.epoch += 1
        self.ledger.take_up(Mandate(self.epoch, task, b"signed"))

    def charge(self) -> bool:
        self.number += 1
        return self.ledger.charge(self.number.to_bytes(32, "big"), SUM)

    def spend_budget(self) -> int:
        """Charge until the budget is insufficient."""
        return next(count for count in range(10_000) if not self.charge())

    def limit_epsilon(self, span: str) -> float:
        return next(limit.epsilon for limit in self.ledger.spending().of_limits if limit.span == span)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    with memory_directory(tmp_path) as directory:
        yield directory


def test_thirteen_tasks_spend_at_most_the_year_s_limit(directory: Path) -> None:
    device = Device(directory / "ledger.db", {"year": 2.0})
    for _ in range(13):
        device.take_up()
        device.spend_budget()
        device.restart()
    assert 1.9 < device.ledger.spending().epsilon <= 2.0
    device.run_for_days(364)
    assert not device.charge()
    device.run_for_days(1.1)
    assert device.charge(), "the next year allows the same amount"
    device.take_up()
    device.spend_budget()
    device.take_up()
    device.spend_budget()
    assert device.limit_epsilon("year") <= 2.0 < device.ledger.spending().epsilon


def test_the_first_reached_limit_counts(directory: Path) -> None:
    device = Device(directory / "ledger.db", {"month": 0.5, "year": 1.0})
    first = device.spend_budget()
    assert 0 < device.limit_epsilon("month") <= 0.5
    assert device.ledger.blocking_limit(SUM) is not None
    months = 0
    while True:
        device.run_for_days(30.1)
        if not (count := device.spend_budget()):
            break
        months += 1
        assert count <= first
        assert device.limit_epsilon("month") <= 0.5
    assert 0 < months < 12
    assert 0.9 < device.limit_epsilon("year") <= 1.0
    reached = device.ledger.blocking_limit(SUM)
    assert reached is not None
    assert reached.span == "year"


@pytest.mark.parametrize("seconds_off", [400 * DAY, -900.0])
def test_time_without_a_running_vault_does_not_count(directory: Path, seconds_off: float) -> None:
    device = Device(directory / "ledger.db", {"month": 0.5})
    device.spend_budget()
    device.run_for_days(10)
    device.restart(seconds_off)
    assert not device.charge()
    device.run_for_days(19)
    assert not device.charge()
    device.run_for_days(2)
    assert device.charge()


def test_a_later_limit_counts_all_earlier_charges(directory: Path) -> None:
    device = Device(directory / "ledger.db", {})
    for _ in range(40):
        assert device.charge()
    before = device.ledger.spending().epsilon
    device.limits = {"year": before}
    device.restart()
    assert device.limit_epsilon("year") == before
    assert not device.charge()


def test_a_limit_survives_a_kill_and_is_counted_from_its_beginning(directory: Path) -> None:
    device = Device(directory / "ledger.db", {"month": 0.5})
    device.run_for_days(31)
    device.spend_budget()
    with closing(Ledger.read(device.path)) as snapshot:  # another process's view
        snapshot.set_limits({"month": 0.5})
        (limit,) = snapshot.spending().of_limits
    assert limit.epsilon == device.limit_epsilon("month")
    assert limit.ends == pytest.approx(29 * DAY, abs=2 * RECORD_INTERVAL)


def test_a_limit_on_records_handles_each_task_s_numbering(directory: Path) -> None:
    budget = Budget(50.0, 1e-5, "record", "add-remove")
    device = Device(directory / "ledger.db", {"year": 1.0}, budget)
    for _ in range(13):
        device.take_up(replace(budget, epsilon=0.6))
        device.spend_budget()
    assert 0.9 < device.limit_epsilon("year") <= 1.0


def test_a_ledger_with_the_previous_schema_accepts_a_limit(directory: Path) -> None:
    device = Device(directory / "ledger.db", {})
    assert device.charge()
    device.ledger.close()
    with closing(connect(device.path, "rw")) as connection:
        connection.executescript(SCHEMA_7)
    device.limits = {"year": 0.5}
    device.start()
    device.spend_budget()
    assert device.limit_epsilon("year") <= 0.5


def test_a_refusal_states_the_limit_and_when_it_ends() -> None:
    ledger = Ledger.in_memory(OWNER, LIFE)
    ledger.set_limits({"month": 0.1})
    ledger.start_counting(lambda: 0.0)
    ledger.record_running_time()
    records = Records(np.ones((20, 1)), np.zeros(20, dtype=np.int64))
    terms = MeanTerms("average", Profile(1, 1.0))
    vault = build(records=records, kernel=None, terms=terms, ledger=ledger, noise=SeededNoise(1))
    refused = vault.answer(Query("average", "mean", 0, np.empty(0)))
    assert isinstance(refused, Refused)
    assert refused.reason == "task", "so the query is repeated"
    assert refused.explanation == "the owner's limit of ε = 0.1 per month has been reached: releases resume in 30 days"


def test_a_budget_without_a_guarantee_obeys_the_limit(directory: Path) -> None:
    device = Device(directory / "ledger.db", {"year": 1.0}, replace(LIFE, epsilon=None))
    device.spend_budget()
    assert 0.9 < device.limit_epsilon("year") <= 1.0


@pytest.mark.parametrize("line", ["epsilon_per_year = 0", "epsilon_per_month = -1", "epsilon_per_week = 1"])
def test_an_invalid_policy_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "policy.toml").write_text(f'approve = "auto"\n{line}\n')
    with pytest.raises(ConfigError, match="epsilon_per"):
        read_policy(tmp_path / "policy.toml")


@pytest.mark.slow
@pytest.mark.parametrize("limits", [{}, {"year": 30.0}, {"year": 2.0}])
@pytest.mark.parametrize("a_day", [1, 3])
def test_the_predicted_end_of_the_budget_is_accurate_within_a_tenth(
    directory: Path, limits: dict[Span, float], a_day: int
) -> None:
    budget = replace(LIFE, epsilon=2.5 if not limits else 50.0)
    device = Device(directory / "ledger.db", limits, budget)
    assert device.ledger.spending().lasts is None, "nothing is known yet"
    predictions: list[tuple[int, float]] = []
    for day in range(365):
        device.run_for_days(1)
        if not all(device.charge() for _ in range(a_day)):
            break
        lasts = device.ledger.spending().lasts
        if day >= 7:
            assert lasts is not None
            predictions.append((day, day + 1 + lasts / DAY))
    else:
        assert all(end > 365 for _, end in predictions), "it never reports the end too early"
        return
    assert all(abs(end - day) <= 0.1 * day + 1 for _, end in predictions)
