"""Adaptive interval: a device with nothing left to learn sends less and less often, but immediately after news."""

from dataclasses import replace

import numpy as np
import pytest
from sottovoce.algorithms.push_sum.public.machine import WEIGHT_ONE
from sottovoce.algorithms.push_sum.public.messages import PushSumShare
from sottovoce.learning.learners import Delivered, Received, SetTimer, SettlingState
from sottovoce.node.core import CALM_CYCLES, CHANGE_THRESHOLD, AdaptiveInterval, Core
from sottovoce_lab.testbed.memory_store import MemoryStore

from tests.unit.learners.support import TICK, push_sum, state

PERIOD, LONGEST = 10.0, 3600.0
SOMETHING = Received("a", PushSumShare(np.zeros(1, dtype=np.int64), 0))
NOW = 5.0


def make_belief(*numbers: float, extra: object = None) -> SettlingState:
    return SettlingState(np.array(numbers), extra)


def pauses(pace: AdaptiveInterval, belief: SettlingState | None, count: int) -> list[float]:
    """Return the pauses after each of this many cycles with this model."""
    results = []
    for _ in range(count):
        (timer,) = pace.reschedule(belief, TICK, [SetTimer("cycle", NOW + PERIOD)], NOW)
        assert isinstance(timer, SetTimer)
        results.append(timer.at - NOW)
    return results


def test_pauses_double_after_enough_cycles_without_news_up_to_the_longest() -> None:
    result = pauses(AdaptiveInterval(LONGEST), make_belief(1.0, -2.0), CALM_CYCLES + 2000)
    assert result[: CALM_CYCLES + 1] == [PERIOD] * (CALM_CYCLES + 1)
    assert result[CALM_CYCLES + 1 : CALM_CYCLES + 10] == [
        20.0,
        40.0,
        80.0,
        160.0,
        320.0,
        640.0,
        1280.0,
        2560.0,
        LONGEST,
    ]
    assert set(result[CALM_CYCLES + 10 :]) == {LONGEST}


@pytest.mark.parametrize("longest", [0.001, PERIOD])
def test_a_pause_is_never_shorter_than_the_period(longest: float) -> None:
    assert set(pauses(AdaptiveInterval(longest), make_belief(1.0), 50)) == {PERIOD}


def test_a_device_with_private_steps_left_is_not_slowed_down() -> None:
    pace = AdaptiveInterval(LONGEST)
    assert set(pauses(pace, None, 50)) == {PERIOD}
    assert pauses(pace, make_belief(1.0), CALM_CYCLES + 2)[-2:] == [PERIOD, 2 * PERIOD]
    assert pauses(pace, None, 1) == [PERIOD]


@pytest.mark.parametrize(
    "news",
    [
        *(
            make_belief(2.0 + 3 * CHANGE_THRESHOLD, 0.0),
            make_belief(2.0, 3 * CHANGE_THRESHOLD),
            make_belief(2.0, 0.0, extra=1),
        ),
        *(make_belief(-2.0, 0.0), None),
    ],
    ids=str,
)
def test_arriving_news_brings_the_next_cycle_forward(news: SettlingState | None) -> None:
    pace = AdaptiveInterval(LONGEST)
    pauses(pace, make_belief(2.0, 0.0), 30)
    assert pace.reschedule(make_belief(2.0 + CHANGE_THRESHOLD, CHANGE_THRESHOLD), SOMETHING, [], NOW) == []
    assert pace.reschedule(make_belief(2.0, 0.0), Delivered("a"), [], NOW) == []
    assert pace.reschedule(news, SOMETHING, [], NOW) == [SetTimer("cycle", NOW + PERIOD)]
    assert pace.reschedule(news, SOMETHING, [], NOW) == []  # the message is in transit
    assert pauses(pace, news, CALM_CYCLES) == [PERIOD] * CALM_CYCLES


def test_news_in_small_parts_counts_as_news() -> None:
    pace = AdaptiveInterval(LONGEST)
    pauses(pace, make_belief(1.0), 30)
    parts = [
        pace.reschedule(make_belief(1.0 + part * CHANGE_THRESHOLD / 4), SOMETHING, [], NOW) for part in range(1, 7)
    ]
    assert [bool(part) for part in parts] == [False, False, False, False, True, False]


def test_a_device_that_has_learnt_wakes_a_quiet_fleet() -> None:
    """Two devices that agree become silent; a share with news wakes one device, and its shares wake the other."""
    cores, due = {}, {}
    for name, other in (("a", "b"), ("b", "a")):
        store = MemoryStore(replace(state(8), weight=WEIGHT_ONE))
        cores[name] = Core(
            learner=push_sum(other, steps=0),
            store=store,
            seal=lambda _, __, message: message,
            interval=AdaptiveInterval(LONGEST),
        )
        due[name] = 0.0
        cores[name].replace_peers((other,), 0.0)

    def perform(name: str, actions: list[object], now: float) -> None:
        for action in actions:
            if isinstance(action, SetTimer):
                due[name] = action.at
            elif (outgoing := getattr(action, "outgoing", None)) is not None:
                to = outgoing.recipient
                perform(to, list(cores[to].receive(name, 1, outgoing.sequence, outgoing.parcel, now)[1]), now)
                perform(name, list(cores[name].confirm(to, outgoing.sequence, now)), now)

    def until(end: float) -> int:
        """Return the cycles begun by this time."""
        begun = 0
        while (now := min(due.values())) < end:
            name = min(due, key=lambda each: due[each])
            perform(name, list(cores[name].fire("cycle", now)), now)
            begun += 1
        return begun

    day = 86_400.0
    until(day)
    assert until(2 * day) <= 2 * day / LONGEST + 2
    news = PushSumShare(np.array([-40 * WEIGHT_ONE], dtype=np.int64), WEIGHT_ONE)
    perform("a", list(cores["a"].receive("c", 1, 1, news, 2 * day)[1]), 2 * day)
    assert until(2 * day + 20 * PERIOD) >= 20
    estimates = [core.state.estimate[0] for core in cores.values()]
    assert estimates == pytest.approx([-8.0, -8.0], rel=1e-3)
    until(3 * day)
    assert until(4 * day) <= 2 * day / LONGEST + 2
