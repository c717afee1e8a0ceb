"""AdaGrad-Norm: steps that shrink by gradients, never by noise, and alike on every machine."""

import math
from dataclasses import replace

import numpy as np
import pytest
from sottovoce.algorithms.contributions.public.machine import Mixer
from sottovoce.algorithms.steps.public.adagrad import AdaGradNorm
from sottovoce.algorithms.steps.public.descent import adapted_contribution
from sottovoce.door import Query
from sottovoce.learners import Ask

from tests.unit.learners.support import TICK, FakeRelease, Stamp, schedule

GRID = 2.0**-15


def test_noise_alone_shortens_hardly_any_step() -> None:
    """48 releases of nothing but noise, by 300 devices: one in 700 is beyond three standard deviations at its end."""
    rule, size, steps = AdaGradNorm(longest=60.0, noise=13.0), 650, 48
    draw = np.random.default_rng(1)
    factors = []
    for _ in range(300):
        squares = 0.0
        for _ in range(steps):
            squares = rule.add(squares, np.rint(draw.normal(0, 13.0, size) / GRID).astype(np.int64), GRID)
        factors.append(rule.factor(squares, steps, size))
    assert np.mean(np.array(factors) < 1) < 0.01
    assert 1 / math.sqrt(1 + (13.0 / 60.0) ** 2 * size * steps) < 0.03, "the factor without the subtraction"


def test_gradients_of_full_length_shorten_the_steps_by_the_root_of_their_number() -> None:
    rule, squares = AdaGradNorm(longest=8.0, noise=0.0), 0.0
    for step in range(1, 10):
        squares = rule.add(squares, np.array([8 * 2**15, 0]), GRID)
        assert rule.factor(squares, step, 2) == pytest.approx(1 / math.sqrt(1 + step))


def test_the_sum_of_squares_is_exact_beyond_64_bits() -> None:
    value = np.array([2**40 + 1, -(2**40)], dtype=np.int64)
    assert AdaGradNorm(longest=1.0, noise=0.0).add(0.0, value, 1.0) == float((2**40 + 1) ** 2 + 2**80)


def test_a_device_shortens_its_own_steps_and_keeps_the_sum_of_squares() -> None:
    plan = replace(schedule(size=2, steps=9), adagrad=AdaGradNorm(longest=1.0, noise=0.0))
    learner = Mixer(plan, np.zeros(2), owner="me", provenance=Stamp(), capacity=8, max_steps=9, dishonest=0.0)
    state, one = learner.fresh(), 2**40
    for expected, squares in ((1 / math.sqrt(2), 1.0), (1 / math.sqrt(2) + 1 / math.sqrt(3), 2.0)):
        state, effects = learner.on(state, TICK, 0.0)
        (ask,) = (effect for effect in effects if isinstance(effect, Ask))
        assert isinstance(ask.query, Query)
        state, _ = learner.on(state, FakeRelease(ask.query.id, np.array([one, 0])), 0.0)
        assert state.numerator[0] / one == pytest.approx(expected, abs=1e-9)
        assert state.squares == squares


def test_a_schedule_without_the_rule_leaves_a_contribution_as_it_is() -> None:
    learner = Mixer(
        schedule(size=1, steps=3), np.zeros(1), owner="me", provenance=Stamp(), capacity=8, max_steps=3, dishonest=0.0
    )
    moved, squares = adapted_contribution(learner.schedule, learner.fresh(), np.array([2**40]), 2.0**-40)
    assert (moved.tolist(), squares) == ([2**40], 0.0)
