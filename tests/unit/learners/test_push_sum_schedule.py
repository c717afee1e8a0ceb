"""When a push-sum device sends, queries and publishes, and what the vault's answers change."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sottovoce.algorithms.push_sum.public.machine import WEIGHT_ONE, PushSum
from sottovoce.algorithms.push_sum.public.messages import PushSumShare
from sottovoce.algorithms.steps.public.descent import contribution
from sottovoce.learning.learners import Ask, Delivered, PublishModel, Received, Send
from sottovoce.privacy.api import Answer, Refused

from tests.support.messages import as_push_sum_share
from tests.unit.learners.support import TICK, Hand, push_sum, release, schedule, state


def test_each_cycle_has_one_private_step_and_later_ones_only_mix() -> None:
    hand = Hand(push_sum("a", steps=3), state(0)).start(now=7.0)
    assert hand.timers == [7.0]
    log = []
    for cycle in range(6):
        now = 7.0 + 10 * cycle
        hand.on(TICK, now)
        log.append((hand.slots, hand.recipients, hand.timers))
        for slot in hand.slots:
            hand.on(release(slot, 5), now + 1)
        hand.on(Delivered("a"), now + 2)
    slots, recipients, timers = zip(*log, strict=True)
    assert slots == ([0], [1], [2], [], [], [])
    assert recipients == (["a"],) * 6
    assert timers == ([17.0], [27.0], [37.0], [47.0], [57.0], [67.0])
    assert hand.state.step == 3


def test_a_device_starts_with_its_model() -> None:
    hand = Hand(push_sum("a"), replace(state(3), cycle=6)).start()
    assert [published.parameters.tolist() for published in hand.all(PublishModel)] == [[3.0]]


@given(answered=st.booleans(), value=st.integers(-(2**50), 2**50))
def test_a_cycle_s_messages_are_fixed_before_its_query(answered: bool, value: int) -> None:
    """The first message cannot depend on the answer; the second does."""
    hand = Hand(push_sum("a", "b", steps=2, share_bits=40), state(1)).on(TICK, 0.0)
    kinds = [type(effect) for effect in hand.effects]
    assert kinds.index(Send) < kinds.index(Ask)
    assert as_push_sum_share(hand.all(Send)[0].message).numerator.tolist() == [WEIGHT_ONE // 2]
    if answered:
        hand.on(release(0, value), 1.0)
        assert not hand.recipients
        assert not hand.timers, "an answer in time moves no timer"
        assert as_push_sum_share(hand.on(TICK, 10.0).all(Send)[0].message).numerator.tolist() == [
            (WEIGHT_ONE // 2 - value) // 2
        ]


def test_the_query_uses_the_published_estimate() -> None:
    hand = Hand(push_sum("a", size=2, steps=1), state(1, -3)).on(TICK)
    assert hand.all(Ask)[0].query.point.tolist() == hand.all(PublishModel)[0].parameters.tolist() == [1.0, -3.0]


@pytest.mark.parametrize("now, beat", [(10.0, 10.0), (10.1, 20.0), (19.9, 20.0), (20.0, 20.0), (47.0, 50.0)])
def test_a_late_answer_waits_for_the_beat(now: float, beat: float) -> None:
    """Sending as soon as the answer arrives would reveal the computation time; nor do two cycles run at once."""
    hand = Hand(push_sum("a", "b", steps=2), state(0)).on(TICK, 0.0).on(TICK, 10.0)
    assert hand.effects == []
    assert hand.state.cycle == 1
    hand.on(release(0, 1), now)
    assert hand.timers == [beat]
    assert not hand.recipients
    hand.on(TICK, beat)
    assert (hand.state.cycle, hand.slots, hand.timers) == (2, [1], [beat + 10.0])


def test_a_spent_budget_ends_the_queries_but_not_the_gossip() -> None:
    hand = Hand(push_sum("a", steps=5), state(4)).on(TICK)
    before = hand.state.numerator
    hand.on(Refused(hand.all(Ask)[0].query.id, "budget", "the privacy budget is spent"))
    assert hand.state.numerator is before
    assert hand.state.step == 0
    for _ in range(3):
        hand.on(Delivered("a")).on(TICK)
        assert hand.recipients == ["a"]
        assert hand.slots == []
        assert hand.all(PublishModel)[0].parameters.tolist() == [4.0]
    hand.on(Received("b", PushSumShare(np.array([0], dtype=np.int64), hand.state.weight)))
    assert hand.state.estimate == pytest.approx([2.0])


def test_a_late_refusal_also_waits_for_the_beat() -> None:
    hand = Hand(push_sum("a", steps=5), state(4)).on(TICK, 0.0)
    refused = Refused(hand.all(Ask)[0].query.id, "budget", "the privacy budget is spent")
    assert hand.on(TICK, 10.0).on(refused, 13.0).timers == [20.0]


@pytest.mark.parametrize("awaiting", [True, False])
def test_unexpected_answers_change_nothing(awaiting: bool) -> None:
    hand = Hand(push_sum("a", steps=5), state(4))
    if awaiting:
        hand.on(TICK)
    before = hand.state
    strangers: list[Answer] = [release(3, 1), release(3, 1, 2, 3), Refused(release(3, 1).query_id, "budget", "spent")]
    for stranger in strangers:
        hand.on(stranger, 1.0)
        assert hand.state is before
        assert hand.effects == []


def test_an_answer_counts_once() -> None:
    hand = Hand(push_sum("a", steps=5), state(4)).on(TICK)
    applied = hand.on(release(0, 7)).state
    assert applied.step == 1
    assert hand.on(release(0, 7)).state is applied


def test_a_pending_query_at_a_crash_is_repeated_for_the_same_slot() -> None:
    hand = Hand(push_sum("a", steps=5), state(4)).on(TICK, 0.0).on(TICK, 10.0)
    hand.start(now=20.0)
    assert hand.timers == [20.0]
    assert (hand.state.pending_query, hand.state.delayed_cycle_time) == (None, None)
    assert hand.on(TICK, 20.0).slots == [0]


def test_simulated_noise_marks_the_state() -> None:
    hand = Hand(push_sum("a", steps=1), state(0)).on(TICK).on(release(0, 1, simulated=True))
    assert hand.state.simulated


def test_step_sizes_decrease_linearly_to_the_last_step() -> None:
    """γ_t/B = 8/4 · (1 - 3/4 · t/4): 2, 1.625, 1.25, 0.875, 0.5."""
    plan = schedule(steps=5, step_size=8.0, step_decay=0.75, expected_records=4)
    value = np.array([3, -1000], dtype=np.int64)
    moves = [contribution(plan, replace(state(0, 0), step=slot), value, 2.0**-10).tolist() for slot in range(5)]
    assert moves == [[int(3 * 2**30 * rate), int(-1000 * 2**30 * rate)] for rate in (2, 1.625, 1.25, 0.875, 0.5)]


def test_a_private_step_opposes_the_gradient_and_is_rounded_to_the_grid() -> None:
    plan = schedule(steps=1, size=3, step_size=0.5, expected_records=3)
    hand = Hand(PushSum(plan), state(0, 0, 0)).on(TICK).on(release(0, 6, -6, 10))
    assert hand.state.numerator.tolist() == [-1, 1, -2]  # 10/6 rounds to 2


def test_a_divergent_step_saturates() -> None:
    plan = schedule(steps=2, step_size=1e30)
    hand = Hand(PushSum(plan), state(0)).on(TICK).on(release(0, 2**50))
    hand.on(TICK).on(release(1, 2**50))
    assert hand.state.numerator.tolist() == [-(2**60)]
