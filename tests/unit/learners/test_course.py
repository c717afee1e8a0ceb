"""Live feeds: half of a window's releases at once, then one for each completed window."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sottovoce.algorithms.pairwise.codec import PairwiseCodec
from sottovoce.algorithms.pairwise.public.machine import Pairwise
from sottovoce.algorithms.push_sum.codec import PushSumCodec
from sottovoce.algorithms.push_sum.public.machine import PushSum
from sottovoce.algorithms.steps.public.descent import Schedule, expected_batch, rate
from sottovoce.learning.learners import Ask, SetTimer, Timer
from sottovoce.privacy.api import Query, Refused

from tests.unit.learners.support import FakeRelease

PERIOD, STEPS = 10.0, 5
SCHEDULE = Schedule(
    learner="clipd2p",
    size=1,
    period=PERIOD,
    steps=STEPS,
    step_size=4.0,
    step_decay=0.5,
    expected_records=44.0,
    fanout=1,
    follows=True,
    longest=0.01,
)


class Beats:
    """A device alone with its vault, beat by beat.

    Attributes:
        slots: that were asked for, in order.
    """

    def __init__(self, learner: Any) -> None:
        self.learner = learner
        self.state = learner.initial_state()
        self.slots: list[int] = []
        self.now = 0.0
        self.refusing = False

    def beat(self, times: int = 1, *, answered: bool = True) -> "Beats":
        for _ in range(times):
            self.now += PERIOD
            self.state, effects = self.learner.on(self.state, Timer("cycle"), self.now)
            for query in [effect.query for effect in effects if isinstance(effect, Ask)]:
                self.query = query
                if answered:
                    self.answer(query)
        return self

    def restart(self) -> "Beats":
        """Restart the device from its saved state."""
        codec = (PairwiseCodec if isinstance(self.learner, Pairwise) else PushSumCodec)(self.learner)
        saved = codec.encode(self.state)
        self.state, _ = self.learner.start(self.learner.restore(codec.decode(saved), frozenset()), self.now)
        return self

    def answer(self, query: Query) -> None:
        self.slots.append(query.slot)
        value = FakeRelease(query.id, np.array([2**40]), units=10)
        answer = Refused(query.id, "budget", "spent") if self.refusing else value
        self.state, _ = self.learner.on(self.state, answer, self.now)

    def over(self, window: int) -> "Beats":
        self.state, effects = self.learner.on_window_ended(self.state, window, self.now)
        assert effects == [SetTimer("cycle", self.now + PERIOD)], "a completed day is learnt within a period"
        return self


@pytest.fixture(params=["pairwise", "push-sum"])
def device(request: pytest.FixtureRequest) -> Beats:
    start = np.zeros(1)
    pairs = request.param == "pairwise"
    return Beats(Pairwise(SCHEDULE, start, reach=1.0, max_steps=99) if pairs else PushSum(SCHEDULE, start))


def ahead(device: Beats) -> bool:
    return bool(device.learner.progress(device.state).phase == "learning")


def test_nothing_is_queried_before_a_window_is_complete(device: Beats) -> None:
    assert device.beat(5).slots == []
    assert device.learner.belief(device.state) is not None, "so it may become silent"


def test_half_of_the_releases_are_made_at_once_and_then_one_per_window(device: Beats) -> None:
    device.over(100)
    assert ahead(device)
    assert device.beat(20).slots == [0, 1, 2], "half of five, rounded up"
    assert not ahead(device)
    assert device.over(101).beat(5).slots == [0, 1, 2, 3]
    assert device.over(101).beat(5).slots == [0, 1, 2, 3], "each window ends once"
    for window in range(102, 110):
        device.over(window).beat(3)
    assert device.slots == list(range(12)), "it continues indefinitely"
    assert device.learner.progress(device.state).steps is None


def test_a_device_that_was_off_takes_one_step_for_all_missed_windows(device: Beats) -> None:
    device.over(100).beat(20).over(130).beat(20)
    assert device.slots == [0, 1, 2, 3]


def test_a_refusal_waits_for_the_next_window(device: Beats) -> None:
    device.refusing = True
    assert device.over(100).beat(5).slots == [0]
    assert not ahead(device)
    device.refusing = False
    assert device.over(101).beat(20).slots == [0, 0, 1, 2]


def test_a_clock_set_back_costs_one_step_and_stops_nothing(device: Beats) -> None:
    device.over(100).beat(20).over(500).beat(9).over(101).beat(9).over(102).beat(9)
    assert device.slots == [0, 1, 2, 3, 4, 5]


def test_a_restart_repeats_no_query(device: Beats) -> None:
    device.over(100).beat(20)
    device.restart()
    assert device.over(100).beat(9).slots == [0, 1, 2]
    assert device.over(101).beat(9).slots == [0, 1, 2, 3]


def test_a_query_interrupted_by_a_stop_is_repeated_on_the_same_day(device: Beats) -> None:
    device.over(100).beat(20).over(101).beat(answered=False)
    assert device.query.slot == 3
    device.restart().over(101).beat(9)
    assert device.slots == [0, 1, 2, 3]
    assert device.over(101).beat(9).slots == [0, 1, 2, 3]


@pytest.mark.parametrize("refusing", [True, False])
def test_a_day_that_ends_during_a_query_is_also_learnt(device: Beats, refusing: bool) -> None:
    device.over(100).beat(20).over(101).beat(answered=False)
    device.over(102).refusing = refusing
    device.answer(device.query)
    device.refusing = False
    device.beat(9)
    assert device.slots == [0, 1, 2, 3, 3 if refusing else 4]
    assert not ahead(device)


def test_a_release_is_divided_by_its_windows_and_moves_at_most_as_far_as_noise_may() -> None:
    def pace(units: int) -> float:
        return rate(SCHEDULE, 0, units) / expected_batch(SCHEDULE, units)

    assert pace(48) == pytest.approx(4.0 / (44 * 48))
    assert pace(10) == pytest.approx(4.0 / 440)
    assert pace(1) == pytest.approx(0.01)
    assert rate(SCHEDULE, 10_000, 48) == rate(SCHEDULE, 3, 48) > 0, (
        "it decreases no further once the initial steps are complete"
    )


@pytest.fixture(params=["pairwise", "push-sum"])
def whole_device(request: pytest.FixtureRequest) -> Beats:
    """A device with the whole device as its unit: five steps, one in three windows."""
    schedule, start = replace(SCHEDULE, follows=False, every=3, longest=math.inf), np.zeros(1)
    pairs = request.param == "pairwise"
    return Beats(Pairwise(schedule, start, reach=1.0, max_steps=5) if pairs else PushSum(schedule, start))


def test_a_whole_device_unit_takes_evenly_spaced_steps_until_all_are_taken(whole_device: Beats) -> None:
    whole_device.over(100).beat(5)
    taken = []
    for window in range(101, 130):
        whole_device.over(window).beat(3)
        taken.append(len(whole_device.slots))
    assert whole_device.slots == [0, 1, 2, 3, 4]
    assert taken[:9] == [1, 1, 2, 2, 2, 3, 3, 3, 4]
    assert whole_device.learner.progress(whole_device.state).steps == 5


def test_a_clock_jump_costs_such_a_device_one_step(whole_device: Beats) -> None:
    whole_device.over(100).beat(3).over(500).beat(3).over(101).beat(3).over(502).beat(3)
    assert whole_device.slots == [0, 1]


def test_such_a_device_ends_when_its_budget_is_refused(whole_device: Beats) -> None:
    whole_device.refusing = True
    whole_device.over(100).beat(3)
    assert whole_device.state.exhausted
