"""Calibration: the whole run just within the budget; the grid public; impossible guarantees refused."""

import math
from fractions import Fraction
from typing import Any

import pytest
from sottovoce.errors import PrivacyError
from sottovoce.privacy.accounting.gaussian import gaussian_delta, gaussian_epsilon
from sottovoce.privacy.mechanisms.clipped_sum import DiscreteGaussian, exact_sum
from sottovoce.privacy.mechanisms.samplers.discrete_gaussian import MAX_SIGMA
from sottovoce.privacy.vault import calibrate

ORDINARY: dict[str, Any] = {
    "clip": 1.0, "size": 650, "releases": 100, "epsilon": 2.0, "delta": 1e-5, "neighbouring": "add-remove"
}  # fmt: skip
CASES = [
    {},
    {"releases": 1},
    {"releases": 3000, "epsilon": 0.5},
    {"size": 1, "releases": 1, "epsilon": 500.0, "delta": 1e-3},
    {"size": 1, "releases": 7, "epsilon": 63.0, "clip": 0.3},
    {"size": 3, "clip": 8.7, "epsilon": 0.01},
    {"size": 100_000, "releases": 200, "epsilon": 8.0, "clip": 5.0},
    {"neighbouring": "replace-one", "clip": 0.37},
    {"neighbouring": "replace-one", "size": 1, "epsilon": 300.0, "releases": 2},
    {"clip": 1e-100},
    {"clip": 1e100, "delta": 1e-12},
]


def make_mechanism(**changes: Any) -> DiscreteGaussian:
    return calibrate(**{**ORDINARY, **changes})


@pytest.mark.parametrize("changes", CASES)
def test_all_releases_together_cost_barely_less_than_the_budget(changes: dict[str, Any]) -> None:
    terms = {**ORDINARY, **changes}
    mechanism = make_mechanism(**changes)
    mu = math.sqrt(terms["releases"] * mechanism.sensitivity_squared / (mechanism.sigma**2 - 16))
    assert gaussian_delta(terms["epsilon"], mu) <= terms["delta"]
    assert 0.999 * terms["epsilon"] <= gaussian_epsilon(mu, terms["delta"]) <= terms["epsilon"]


@pytest.mark.parametrize("changes", CASES)
def test_the_grid_is_fine_enough(changes: dict[str, Any]) -> None:
    """The step is a power of two; the clip is at most C, and rounding P coordinates toward zero loses at most C/256."""
    terms = {**ORDINARY, **changes}
    mechanism = make_mechanism(**changes)
    assert mechanism.step == 2.0**mechanism.exponent
    clip, step = Fraction(terms["clip"]), Fraction(mechanism.step)
    assert mechanism.clip_squared * step**2 <= clip**2 < (mechanism.clip_squared + 1) * step**2
    assert step**2 * terms["size"] <= (clip / 256) ** 2
    assert mechanism.sigma >= 2**12
    assert mechanism.sigma <= MAX_SIGMA
    assert mechanism.clip_squared <= 2**52


def test_replacing_a_record_moves_a_sum_twice_as_far() -> None:
    here, there = make_mechanism(), make_mechanism(neighbouring="replace-one")
    assert here.sensitivity_squared == here.clip_squared
    assert there.sensitivity_squared == 4 * there.clip_squared
    assert there.sigma * there.step == pytest.approx(2 * here.sigma * here.step, rel=1e-3)


def test_the_noise_is_the_analytic_one() -> None:
    """ε = 1, δ = 1e-5, one release: σ = 3.730631635 C."""
    mechanism = make_mechanism(releases=1, epsilon=1.0, clip=2.0)
    assert mechanism.sigma * mechanism.step == pytest.approx(2 * 3.730631635, rel=1e-3)


@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon": 1000.0},
        {"epsilon": math.inf},
        {"epsilon": math.nan},
        {"epsilon": 0.0},
        {"epsilon": -1.0},
        {"delta": 0.0},
        {"delta": 1.0},
        {"delta": math.nan},
        {"releases": 0},
        {"releases": -3},
        {"clip": 0.0},
        {"clip": -1.0},
        {"clip": math.inf},
        {"clip": math.nan},
        {"clip": 1e-300},
        {"clip": 1e300},
        {"size": 0},
        {"neighbouring": "both"},
        {"epsilon": 1e-7},
        {"epsilon": 1e-300, "delta": 1e-300},
        {"releases": 10**9},
        {"size": 10**12},
    ],
    ids=str,
)
def test_impossible_guarantees_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(PrivacyError):
        make_mechanism(**changes)


@pytest.mark.parametrize("clip", [1e-9, 0.5, 1.0, 3.7, 1e9])
def test_the_noiseless_grid_is_fine_and_exact(clip: float) -> None:
    mechanism = exact_sum(clip=clip, size=3)
    assert mechanism.step <= clip * 2.0**-24
    assert mechanism.clip_squared is not None
    assert mechanism.clip_squared <= 2**52


@pytest.mark.parametrize("clip", [0.0, -1.0, math.inf, math.nan, 1e300])
def test_a_noise_free_clip_is_also_a_number(clip: float) -> None:
    with pytest.raises(PrivacyError):
        exact_sum(clip=clip, size=3)
