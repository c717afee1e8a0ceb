"""Followed records: half of a window's releases at once, then one for each window that ends."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sottovoce.algorithms.pairwise.public.machine import Pairwise
from sottovoce.algorithms.pairwise.state_codec import PairwiseCodec
from sottovoce.algorithms.push_sum.public.machine import PushSum
from sottovoce.algorithms.push_sum.state_codec import PushSumCodec
from sottovoce.algorithms.steps.public.descent import Schedule, expected_batch, rate
from sottovoce.door import Query, Refused
from sottovoce.learners import Ask, SetTimer, Timer

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
    """A device that is alone with its vault, beat by beat.

    Attributes:
        slots: that were asked for, in order.
    """

    def __init__(self, learner: Any) -> None:
        self.learner = learner
        self.state = learner.fresh()
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
        self.state, _ = self.learner.start(self.learner.resumed(codec.decode(saved), frozenset()), self.now)
        return self

    def answer(self, query: Query) -> None:
        self.slots.append(query.slot)
        value = FakeRelease(query.id, np.array([2**40]), units=10)
        answer = Refused(query.id, "budget", "spent") if self.refusing else value
        self.state, _ = self.learner.on(self.state, answer, self.now)

    def over(self, window: int) -> "Beats":
        self.state, effects = self.learner.over(self.state, window, self.now)
        assert effects == [SetTimer("cycle", self.now + PERIOD)], "a day that is over is learnt from within a period"
        return self


@pytest.fixture(params=["pairwise", "push-sum"])
def device(request: pytest.FixtureRequest) -> Beats:
    start = np.zeros(1)
    pairs = request.param == "pairwise"
    return Beats(Pairwise(SCHEDULE, start, reach=1.0, max_steps=99) if pairs else PushSum(SCHEDULE, start))


def ahead(device: Beats) -> bool:
    return bool(device.learner.progress(device.state).phase == "learning")


def test_nothing_is_asked_before_a_window_is_over(device: Beats) -> None:
    assert device.beat(5).slots == []
    assert device.learner.belief(device.state) is not None, "so it may be silent"


def test_half_of_the_releases_are_taken_at_once_and_then_one_a_window(device: Beats) -> None:
    device.over(100)
    assert ahead(device)
    assert device.beat(20).slots == [0, 1, 2], "half of five, rounded up"
    assert not ahead(device)
    assert device.over(101).beat(5).slots == [0, 1, 2, 3]
    assert device.over(101).beat(5).slots == [0, 1, 2, 3], "a window ends once"
    for window in range(102, 110):
        device.over(window).beat(3)
    assert device.slots == list(range(12)), "it goes on for ever"
    assert device.learner.progress(device.state).steps is None


def test_a_device_that_was_off_takes_one_step_for_all_windows_that_it_missed(device: Beats) -> None:
    device.over(100).beat(20).over(130).beat(20)
    assert device.slots == [0, 1, 2, 3]


def test_a_refusal_waits_for_the_next_window(device: Beats) -> None:
    device.refusing = True
    assert device.over(100).beat(5).slots == [0]
    assert not ahead(device)
    device.refusing = False
    assert device.over(101).beat(20).slots == [0, 0, 1, 2]


def test_a_clock_that_is_set_back_costs_one_step_and_stops_nothing(device: Beats) -> None:
    device.over(100).beat(20).over(500).beat(9).over(101).beat(9).over(102).beat(9)
    assert device.slots == [0, 1, 2, 3, 4, 5]


def test_a_restart_asks_nothing_anew(device: Beats) -> None:
    device.over(100).beat(20)
    device.restart()
    assert device.over(100).beat(9).slots == [0, 1, 2]
    assert device.over(101).beat(9).slots == [0, 1, 2, 3]


def test_a_question_whose_answer_a_stop_overtook_is_asked_again_on_the_same_day(device: Beats) -> None:
    device.over(100).beat(20).over(101).beat(answered=False)
    assert device.query.slot == 3
    device.restart().over(101).beat(9)
    assert device.slots == [0, 1, 2, 3]
    assert device.over(101).beat(9).slots == [0, 1, 2, 3]


@pytest.mark.parametrize("refusing", [True, False])
def test_a_day_that_ends_while_a_question_is_answered_is_learnt_from_too(device: Beats, refusing: bool) -> None:
    device.over(100).beat(20).over(101).beat(answered=False)
    device.over(102).refusing = refusing
    device.answer(device.query)
    device.refusing = False
    device.beat(9)
    assert device.slots == [0, 1, 2, 3, 3 if refusing else 4]
    assert not ahead(device)


def test_a_release_of_more_windows_is_divided_by_more_and_one_of_few_moves_no_farther_than_noise_may() -> None:
    def pace(units: int) -> float:
        return rate(SCHEDULE, 0, units) / expected_batch(SCHEDULE, units)

    assert pace(48) == pytest.approx(4.0 / (44 * 48))
    assert pace(10) == pytest.approx(4.0 / 440)
    assert pace(1) == pytest.approx(0.01)
    assert rate(SCHEDULE, 10_000, 48) == rate(SCHEDULE, 3, 48) > 0, "it falls no further when all at once are taken"


@pytest.fixture(params=["pairwise", "push-sum"])
def whole(request: pytest.FixtureRequest) -> Beats:
    """A device that pays as a whole: five steps, one in three windows."""
    schedule, start = replace(SCHEDULE, follows=False, every=3, longest=math.inf), np.zeros(1)
    pairs = request.param == "pairwise"
    return Beats(Pairwise(schedule, start, reach=1.0, max_steps=5) if pairs else PushSum(schedule, start))


def test_a_device_that_pays_as_a_whole_takes_a_step_in_so_many_windows_until_all_are_taken(whole: Beats) -> None:
    whole.over(100).beat(5)
    taken = []
    for window in range(101, 130):
        whole.over(window).beat(3)
        taken.append(len(whole.slots))
    assert whole.slots == [0, 1, 2, 3, 4]
    assert taken[:9] == [1, 1, 2, 2, 2, 3, 3, 3, 4]
    assert whole.learner.progress(whole.state).steps == 5


def test_a_clock_that_jumps_costs_such_a_device_one_step(whole: Beats) -> None:
    whole.over(100).beat(3).over(500).beat(3).over(101).beat(3).over(502).beat(3)
    assert whole.slots == [0, 1]


def test_such_a_device_takes_a_refusal_by_its_budget_for_the_end(whole: Beats) -> None:
    whole.refusing = True
    whole.over(100).beat(3)
    assert whole.state.exhausted
