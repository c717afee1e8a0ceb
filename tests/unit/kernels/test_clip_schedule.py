"""Clipping thresholds: their moves, and the sum of a split multiplier's parts."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sottovoce.errors import ConfigError
from sottovoce.kernels.decentralised import clip_schedule


def test_decay_runs_from_the_first_threshold_to_the_ratio_in_equal_factors() -> None:
    thresholds = [clip_schedule.decayed_threshold(4.0, 0.25, t, 10) for t in range(11)]
    assert thresholds[0] == 4.0
    assert thresholds[5] == pytest.approx(2.0)
    assert thresholds[10] == pytest.approx(1.0)
    factors = np.divide(thresholds[1:], thresholds[:-1])
    np.testing.assert_allclose(factors, factors[0])


@pytest.mark.parametrize("target", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("start", [0.01, 50.0])
def test_the_threshold_comes_to_the_quantile(target: float, start: float) -> None:
    norms = np.random.default_rng(0).lognormal(size=2001)
    threshold = start
    for _ in range(400):
        threshold = clip_schedule.next_threshold(threshold, float(np.mean((norms <= threshold) - 0.5)), target, 0.2)
    assert np.mean(norms <= threshold) == pytest.approx(target, abs=0.02)


def test_one_step_by_hand() -> None:
    assert clip_schedule.next_threshold(2.0, 0.1, 0.5, 0.2) == pytest.approx(2 * math.exp(-0.02))
    assert clip_schedule.next_threshold(2.0, -0.5, 0.5, 1.0) == pytest.approx(2 * math.exp(0.5)), "none was whole: up"
    assert clip_schedule.next_threshold(2.0, 0.0, 0.5, 1.0) == 2.0


@given(st.floats(0.01, 100), st.floats(1.0001, 1e4))
def test_gradient_and_bits_together_have_the_multiplier(multiplier: float, spare: float) -> None:
    """A record that moves both as far as it can: the squared distance in units of noise is 1/z²."""
    bit_noise = multiplier / 2 * spare
    gradient = clip_schedule.gradient_multiplier(multiplier, bit_noise)
    moved = np.array([1.0, 0.5]) / [gradient, bit_noise]
    assert 1 / np.linalg.norm(moved) == pytest.approx(multiplier, rel=1e-9)
    assert gradient > multiplier, "what the bits spend the gradient must save"


def test_bits_of_little_noise_leave_nothing() -> None:
    for bit_noise in (1.0, 0.5, 0.0, math.nan):
        with pytest.raises(ConfigError, match="choose noise on the bits above 1"):
            clip_schedule.gradient_multiplier(2.0, bit_noise)
    assert clip_schedule.gradient_multiplier(2.0, math.inf) == 2.0


def test_settings_that_cannot_be() -> None:
    for initial, ratio, steps in ((0.0, 0.5, 5), (1.0, -1.0, 5), (1.0, 0.5, 0), (math.inf, 0.5, 5)):
        with pytest.raises(ConfigError, match="must be positive"):
            clip_schedule.decayed_threshold(initial, ratio, 0, steps)
    for threshold, target, rate in ((1.0, 1.0, 0.2), (1.0, 0.0, 0.2), (0.0, 0.5, 0.2), (1.0, 0.5, math.nan)):
        with pytest.raises(ConfigError, match="quantile"):
            clip_schedule.next_threshold(threshold, 0.0, target, rate)
