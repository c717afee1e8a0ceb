"""Damping: steps shrink while gradients oscillate, but not under noise or constant gradients."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from sottovoce.algorithms.contributions.public.machine import Mixer
from sottovoce.algorithms.steps.public.descent import Damping, damped_contribution
from sottovoce.learning.learners import Ask

from tests.unit.learners.support import TICK, FakeRelease, Stamp, schedule

ONE = 2**40


def test_noise_alone_shortens_hardly_any_step() -> None:
    """48 pure-noise releases on 300 devices: one in 700 ends beyond three standard deviations."""
    rule, size, steps = Damping(longest=60.0, noise=13.0), 650, 48
    draw = np.random.default_rng(1)
    factors, variations = [], []
    for _ in range(300):
        releases, variation = draw.normal(0, 13.0, (steps, size)), 0.0
        for last, release in pairwise(releases):
            variation = rule.add(variation, last, release)
        factors.append(rule.factor(variation, steps - 1, size))
        variations.append(variation)
    assert np.mean(np.array(factors) < 1) < 0.01
    numbers, unit = (steps - 1) * size, (13.0 / 60.0) ** 2
    assert np.mean(variations) == pytest.approx(numbers * unit, rel=0.01)
    assert np.std(variations) == pytest.approx(np.sqrt(3 * numbers) * unit, rel=0.1)
    assert 1 / (1 + np.mean(variations) / 3) < 0.01, "the factor without the subtraction"


def test_oscillating_gradients_shorten_the_steps_and_constant_ones_do_not() -> None:
    rule, swinging, staying = Damping(longest=8.0, noise=0.0), 0.0, 0.0
    side = np.array([8.0, 0.0])
    for swings in range(1, 10):
        swinging, staying = rule.add(swinging, side, -side), rule.add(staying, side, side)
        side = -side
        assert rule.factor(swinging, swings, 2) == pytest.approx(1 / (1 + swings * 2 / 3))
        assert rule.factor(staying, swings, 2) == 1.0


def test_a_device_shortens_its_own_steps_and_stores_the_variation() -> None:
    plan = replace(schedule(size=2, steps=9), damping=Damping(longest=1.0, noise=0.0))
    learner = Mixer(plan, np.zeros(2), owner="me", provenance=Stamp(), capacity=8, max_steps=9, dishonest=0.0)
    state, total = learner.initial_state(), 0.0
    for value, factor, variation in ((ONE, 1.0, 0.0), (-ONE, 0.6, 2.0), (-ONE, 0.6, 2.0)):
        state, effects = learner.on(state, TICK, 0.0)
        (ask,) = (effect for effect in effects if isinstance(effect, Ask))
        state, _ = learner.on(state, FakeRelease(ask.query.id, np.array([value, 0])), 0.0)
        total += value / ONE * factor
        assert state.numerator[0] / ONE == pytest.approx(total, abs=1e-9)
        assert state.variation == variation
    repeated = replace(state, last=None)  # after a restart, one difference is unknown
    assert damped_contribution(plan, repeated, np.array([ONE, 0]), 2.0**-40)[1] == state.variation


def test_a_schedule_without_the_rule_leaves_a_contribution_unchanged() -> None:
    learner = Mixer(
        schedule(size=1, steps=3), np.zeros(1), owner="me", provenance=Stamp(), capacity=8, max_steps=3, dishonest=0.0
    )
    state = replace(learner.initial_state(), last=np.array([-5.0]))
    moved, variation, _ = damped_contribution(learner.schedule, state, np.array([ONE]), 2.0**-40)
    assert (moved.tolist(), variation) == ([ONE], 0.0)
