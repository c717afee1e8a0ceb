"""Lower bounds on ε: never above the truth except by chance, and as strong as ALGORITHMS.md, 7.0, states."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from scipy import stats
from sottovoce_lab.auditor.binomial import upper_limit
from sottovoce_lab.auditor.bounds import (
    AnswerCounts,
    one_run_epsilon,
    one_run_p,
    pure_sample_size,
    sample_size,
)
from sottovoce_lab.auditor.p_values import gamma_two_sided, phi
from sottovoce_lab.auditor.shapes import Gaussians, SampledGaussians, Shape

DELTA = 1e-5
SHAPES = [Gaussians(), SampledGaussians(0.5, 48, "add-remove"), SampledGaussians(1 / 3, 3, "replace-one")]


@pytest.mark.parametrize("ratio, numbers", [(0.5, 11), (0.75, 54), (0.9, 390), (0.99, 42_450)])
def test_sample_size_that_reveals_a_wrong_scale(ratio: float, numbers: int) -> None:
    """At 5 %, with a power of 90 %: one message's noise suffices."""

    def power(n: int) -> float:
        """Return the power of the one-sided test for too little noise, whose p-value is half of ours."""
        return float(stats.chi2.cdf(stats.chi2.ppf(0.05, n) / ratio**2, n))

    assert power(numbers) >= 0.9
    assert power(math.floor(0.95 * numbers) - 1) < 0.9
    edge = stats.chi2.ppf(0.05, numbers)
    assert gamma_two_sided(edge / 2, numbers / 2) == pytest.approx(0.1, rel=1e-6)


@pytest.mark.parametrize("messages, claimed, true", [(249, 0.5, 1.0), (82, 1.0, 2.0)])
def test_sample_size_that_refutes_a_gaussian(messages: int, claimed: float, true: float) -> None:
    """With a power of 90 %, each rate at 97.5 %; not with a tenth less than three quarters of the messages."""

    def power(n: int) -> float:
        right = phi(true - claimed / 2)
        counts = np.arange(n + 1)
        limits = [upper_limit(int(count), n, 0.025) for count in counts]
        z = np.array([NormalDist().inv_cdf(1 - limit) if limit < 1 else -math.inf for limit in limits])
        false, missed = stats.binom.pmf(counts, n, phi(-claimed / 2)), stats.binom.pmf(counts, n, 1 - right)
        return float(false @ ((z[:, np.newaxis] + z > claimed) @ missed))

    assert power(messages) >= 0.9
    assert power(round(0.7 * messages)) < 0.9


def test_one_run_bound() -> None:
    """39 of 46 guesses right refute ε = 1; 38 do not; neither do the expected 34."""
    assert one_run_p(46, 46, 39, 1.0, 0.0) < 0.05 < one_run_p(46, 46, 38, 1.0, 0.0)
    assert one_run_epsilon(46, 46, 39, 0.0, 0.05) > 1
    assert one_run_epsilon(46, 46, 34, 0.0, 0.05) < 1
    assert one_run_epsilon(100, 10, 5, 0.0, 0.05) == 0


def test_one_run_with_a_delta_is_theorem_5_2() -> None:
    m, r, v, epsilon, delta = 1000, 60, 55, 1.2, 1e-4
    law = stats.binom(r, 1 / (1 + math.exp(-epsilon)))
    beta = law.sf(v - 1)
    alpha = max((law.sf(v - i - 1) - beta) / i for i in range(1, v + 1))
    assert one_run_p(m, r, v, epsilon, delta) == pytest.approx(beta + 2 * m * delta * alpha, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_bounds_from_rates_hold(epsilon: float) -> None:
    """Randomised response, the attack that needs all of ε: the bound exceeds ε in at most 1 of 20 runs."""
    rng = np.random.default_rng(1)
    p = 1 / (1 + math.exp(-epsilon))
    hits, alarms = rng.binomial(800, p, 150), rng.binomial(800, 1 - p, 150)
    bounds = np.array(
        [AnswerCounts(h, 800, a, 800).epsilon(0.0, 0.05) for h, a in zip(hits.tolist(), alarms.tolist(), strict=True)]
    )
    assert (bounds > epsilon).sum() <= stats.binom.ppf(1 - 1e-6, 150, 0.05)
    assert np.median(bounds) > 0.6 * epsilon


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_advantage_and_epsilon_convert_into_each_other(shape: Shape) -> None:
    """The result never exceeds the truth, and is close to it."""
    for epsilon in (0.5, 2.0):
        result = shape.epsilon(shape.advantage(epsilon, DELTA), DELTA)
        assert 0.995 * epsilon < result <= epsilon * (1 + 1e-6)
    assert shape.epsilon(0.0, DELTA) == 0


@pytest.mark.parametrize("rate, releases", [(0.5, 48), (1 / 3, 3)])
def test_the_best_test_of_sampled_sums_has_the_stated_advantage(rate: float, releases: int) -> None:
    """The likelihood ratio for a canary of length 1, with its threshold at 1: within five deviations."""
    shape, games = SampledGaussians(rate, releases, "add-remove"), 200_000
    sigma = shape.noise(2.0, DELTA)
    rng = np.random.default_rng(5)

    def answer_rate(there: bool) -> float:
        ratios = np.zeros(games)
        for _ in range(releases):
            observed = rng.normal(0, sigma, games) + (rng.random(games) < rate if there else 0.0)
            ratios += np.logaddexp(math.log1p(-rate), math.log(rate) + (observed - 0.5) / sigma**2)
        return float((ratios > 0).mean())

    assert answer_rate(True) - answer_rate(False) == pytest.approx(
        shape.advantage(2.0, DELTA), abs=5 / math.sqrt(2 * games)
    )


def test_bounds_from_an_advantage_hold() -> None:
    rng = np.random.default_rng(2)
    mu = 1.0
    hits, alarms = rng.binomial(1000, phi(mu / 2), 150), rng.binomial(1000, phi(-mu / 2), 150)
    observed = [
        AnswerCounts(h, 1000, a, 1000).advantage(0.05) for h, a in zip(hits.tolist(), alarms.tolist(), strict=True)
    ]
    true = 2 * phi(mu / 2) - 1
    assert (np.array(observed) > true).sum() <= stats.binom.ppf(1 - 1e-6, 150, 0.05)
    assert np.median(observed) > 0.8 * true


def test_perfect_and_useless_attacks() -> None:
    assert AnswerCounts(50, 50, 0, 50).epsilon(0.0, 0.05) == pytest.approx(
        math.log((0.0125 ** (1 / 50)) / (1 - 0.0125 ** (1 / 50)))
    )
    useless = AnswerCounts(25, 50, 25, 50)
    assert (useless.epsilon(1e-5, 0.05), useless.advantage(0.05)) == (0, 0)


def test_a_sample_size_suffices_by_a_narrow_margin() -> None:
    alpha, epsilon, shape = 1e-6, 2.0, Gaussians()
    size = sample_size(shape, epsilon, DELTA, alpha)
    assert size is not None
    rng = np.random.default_rng(4)
    right = (1 + shape.advantage(2 * epsilon, DELTA)) / 2

    def refuted(n: int) -> float:
        hits, alarms = rng.binomial(n, right, 60), rng.binomial(n, 1 - right, 60)
        results = [
            AnswerCounts(h, n, a, n).advantage(alpha) for h, a in zip(hits.tolist(), alarms.tolist(), strict=True)
        ]
        return float((np.array(results) > shape.advantage(epsilon, DELTA)).mean())

    assert refuted(size) > 0.85
    assert refuted(size // 2) < 0.5


def test_sample_sizes_beyond_the_limit_are_none() -> None:
    assert pure_sample_size(30.0, 1e-6, 0.5) is None
    near, far = pure_sample_size(1.0, 1e-6, 0.5), pure_sample_size(1.0, 1e-6, 0.5, factor=4.0)
    assert near is not None
    assert far is not None
    assert far < near
