"""Jumping clock: no day is charged before the clock has been steady, and no later day is lost."""

import random
from dataclasses import dataclass, field

import numpy as np
import pytest
from sottovoce.data import Records
from sottovoce.days import DAY, NOT_BEFORE
from sottovoce.kernels.softmax import Softmax
from sottovoce.privacy.accounting.units import Units
from sottovoce.privacy.api import Query, Refused
from sottovoce.privacy.ledger.clocks import STEADY_SECONDS
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.gradients import GradientTerms
from sottovoce.privacy.vault import Budget, GrowingRecords, Ledger, OperatingSystemNoise, TrustedDays, Vault

HOUR = 3600.0
FIRST = int(NOT_BEFORE // DAY)
KERNEL = Softmax(2, 2)
EPSILON = 2.0


@dataclass
class Machine:
    """A device with a wall clock that others set.

    Attributes:
        uptime: seconds since it was started.
        skew: how far its wall clock is ahead of the time, seconds.
    """

    uptime: float = 0.0
    skew: float = 0.0
    ledger: Ledger = field(
        default_factory=lambda: Ledger.in_memory("meter-17", Budget(EPSILON, 1e-5, "window", "add-remove"))
    )
    slot: int = 0
    learnt: int | None = None

    @property
    def wall(self) -> float:
        return (FIRST + 20) * DAY + self.uptime + self.skew

    def start(self) -> "Machine":
        """Start its vault with the ledger's last day."""
        self.days = TrustedDays(lambda: self.wall, self.ledger.last_window(), lambda: self.uptime)
        count = 60
        records = Records(np.ones((count, 2)), np.zeros(count, dtype=np.int64), np.arange(FIRST, FIRST + count))
        self.vault: Vault = build(
            records=records,
            kernel=KERNEL,
            terms=GradientTerms("clipd2p", 48, 0.5, (FIRST, FIRST + 3652)),
            ledger=self.ledger,
            noise=OperatingSystemNoise(),
            growing_records=GrowingRecords(lambda: records, self.days),
        )
        return self

    def live(self, seconds: float) -> "Machine":
        """Let time pass; once an hour, query about a completed day that has not been learnt."""
        until = self.uptime + seconds
        while self.uptime < until:
            self.uptime = min(until, self.uptime + HOUR)
            over = int(self.wall // DAY) - 1
            if over == self.learnt:
                continue
            answer = self.vault.answer(Query("clipd2p", "gradient", self.slot, np.zeros(KERNEL.size)))
            if isinstance(answer, Refused) and answer.reason == "calendar":
                continue
            self.learnt = over
            self.slot += not isinstance(answer, Refused)
        return self


def test_days_end_while_the_clock_is_steady() -> None:
    machine = Machine().start()
    assert machine.days() == FIRST + 19
    machine.live(3 * DAY)
    assert machine.days() == FIRST + 22
    assert machine.ledger.last_window() == FIRST + 22


@pytest.mark.parametrize("jump", [400 * DAY, -400 * DAY, 2 * HOUR])
def test_after_a_jump_no_day_ends_until_the_clock_has_been_steady(
    jump: float, caplog: pytest.LogCaptureFixture
) -> None:
    machine = Machine().start().live(DAY)
    machine.skew = jump
    assert machine.days() is None
    machine.uptime += STEADY_SECONDS - 1
    assert machine.days() is None
    machine.uptime += 1
    assert machine.days() is not None or jump < -20 * DAY
    assert "clock-jumped" in caplog.text


def test_a_start_near_the_last_charged_day_is_accepted_and_a_distant_one_is_not() -> None:
    machine = Machine().start().live(DAY)
    machine.uptime += 20 * DAY
    assert machine.start().days() is not None
    machine.skew = 3000 * DAY
    assert machine.start().days() is None
    machine.skew = 0.0
    assert machine.start().days() is not None


def test_sixty_clock_round_trips_in_a_quarter_of_an_hour_charge_no_future_day() -> None:
    machine = Machine().start().live(DAY)
    for _ in range(60):
        machine.skew = 3000 * DAY
        machine.live(7.0)
        machine.skew = 0.0
        machine.live(7.0)
    assert machine.ledger.epsilon_spent(Units(((FIRST + 25, FIRST + 4000),))) == 0.0


@pytest.mark.parametrize("seed", range(100))
def test_after_any_clock_changes_the_next_three_days_are_learnt(seed: int) -> None:
    rng = random.Random(seed)
    machine = Machine().start().live(DAY * rng.randint(1, 5))
    for _ in range(rng.randint(1, 40)):
        size = DAY * 4000 ** rng.random() if rng.random() < 0.7 else HOUR * rng.uniform(1, 24)
        machine.skew = rng.choice((0.0, size, -size))
        if rng.random() < 0.3:
            machine.start()
        machine.live(rng.choice((60.0, HOUR, 8 * HOUR)))
    machine.skew = 0.0
    if rng.random() < 0.5:
        machine.start()
    today = int(machine.wall // DAY)
    machine.live(4.5 * DAY)
    for day in range(today, today + 3):
        assert 0.0 < machine.ledger.epsilon_spent(Units(((day, day),))) <= EPSILON
