"""Varying thresholds: public rules, and ln C as an additional coordinate of the mass."""

import math

import numpy as np
import pytest
from sottovoce.algorithms.push_sum.public.machine import WEIGHT_ONE, PushSum
from sottovoce.algorithms.steps.public.descent import THRESHOLD_RATE, UNIT, Schedule, Thresholds
from sottovoce.kernels.decentralised.clipping import BIT_SHARE, decayed_threshold, normalise
from sottovoce.learning.learners import Ask, PublishModel
from sottovoce.privacy.api import Query

from tests.unit.learners.support import TICK, FakeRelease, Hand

STEP = 2.0**-20


def learner(thresholds: Thresholds | None, initial: list[float] | None = None) -> PushSum:
    plan = Schedule("adad2p", 2, 10.0, 4, 3.0, 0.0, 5.0, 1, thresholds)
    return PushSum(plan, None if initial is None else np.array(initial))


def answer_query(hand: Hand, total: np.ndarray) -> Hand:
    """Answer the last query with the release `total`."""
    query = hand.all(Ask)[0].query
    return hand.on(FakeRelease(query.id, np.rint(total / STEP).astype(np.int64), STEP))


def test_every_device_begins_with_the_public_start() -> None:
    hand = Hand(learner(None, [0.25, -1.5]), learner(None, [0.25, -1.5]).initial_state()).start()
    assert [published.parameters.tolist() for published in hand.all(PublishModel)] == [[0.25, -1.5]]
    assert hand.state.weight == WEIGHT_ONE
    without_state = learner(None, [0.25, -1.5]).without_state(2)
    assert (without_state.weight, without_state.numerator.tolist()) == (0, [0, 0]), "mass is not counted twice"


def test_decay_queries_with_the_public_rule_s_thresholds() -> None:
    rule = Thresholds("decay", 0.8, ratio=0.25)
    hand = Hand(learner(rule), learner(rule).initial_state())
    for slot in range(4):
        point = hand.on(TICK, now=10.0 * slot).all(Ask)[0].query.point
        assert point.tolist() == [*(hand.state.numerator / UNIT).tolist(), decayed_threshold(0.8, 0.25, slot, 4)]
        before = hand.state.numerator / UNIT
        answer_query(hand, np.array([1.0, -0.5]))
        moved = before - hand.state.numerator / UNIT
        np.testing.assert_allclose(moved, np.array([1.0, -0.5]) * point[-1] * 3.0 / 5.0, atol=1e-11)


def test_the_quantile_rule_follows_andrew_et_al() -> None:
    """C exp(-η (share - target)), ignoring noise; and the gradient counts as if it had been clipped."""
    rule = Thresholds("quantile", 0.5, target=0.4)
    hand = Hand(learner(rule), learner(rule).initial_state())
    gradients = np.array([[3.0, 0.0], [0.3, 0.0], [0.0, 0.2], [0.0, -9.0], [2.0, 2.0]])
    query: Query = hand.on(TICK).all(Ask)[0].query
    assert query.point[-1] == pytest.approx(0.5, rel=1e-11)
    answer_query(hand, normalise(gradients, "quantile", 0.5).sum(axis=0))
    clipped = gradients * np.minimum(1, 0.5 / np.linalg.norm(gradients, axis=1, keepdims=True))
    np.testing.assert_allclose(hand.state.numerator[:2] / UNIT, -clipped.sum(axis=0) * 3 / 5, atol=1e-4)
    point = hand.on(TICK, now=10.0).all(Ask)[0].query.point
    assert point[-1] == pytest.approx(0.5 * math.exp(-THRESHOLD_RATE * (2 / 5 - 0.4)), rel=1e-4)


def test_noise_alone_does_not_move_the_threshold_far() -> None:
    rule = Thresholds("quantile", 0.5)
    for far in (-1e6, 1e6):
        assert rule.threshold_at(0, 4, np.array([0.0, 0.0, far])) == pytest.approx(0.5 * 100.0 ** math.copysign(1, far))


def test_the_threshold_is_mixed_but_not_published() -> None:
    rule = Thresholds("quantile", 0.5)
    hand = Hand(learner(rule), learner(rule).initial_state()).start()
    assert hand.state.numerator.tolist()[-1] == round(math.log(0.5) * UNIT)
    assert [published.parameters.size for published in hand.all(PublishModel)] == [2]


def test_a_bit_has_its_stated_value() -> None:
    rule = Thresholds("quantile", 0.5, target=0.0)
    move = rule.descent(np.array([0.0, 0.0, 5 * BIT_SHARE]), 0.5, 3.0, 5.0)
    assert move.tolist() == pytest.approx([0.0, 0.0, THRESHOLD_RATE])
