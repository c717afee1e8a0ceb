"""Limits and p-values against SciPy, which devices do not have."""

import numpy as np
import pytest
from scipy import stats
from sottovoce_lab.auditor.binomial import (
    lower_limit,
    probability_at_least,
    probability_at_most,
    quantile,
    two_sided_p_value,
    upper_limit,
)
from sottovoce_lab.auditor.finding import SIGNIFICANCE
from sottovoce_lab.auditor.laws import GaussianLaw, Law, MaxNormLaw
from sottovoce_lab.auditor.p_values import gamma_above, gamma_two_sided, phi, uniform_low_bits, uniformity_p_value

COUNTS = [(0, 20), (3, 50), (20, 20), (500, 1000), (7, 9000), (39, 46)]


@pytest.mark.parametrize("count, trials", COUNTS)
@pytest.mark.parametrize("alpha", [0.025, 1e-6])
def test_limits_match_clopper_and_pearson(count: int, trials: int, alpha: float) -> None:
    low = 0.0 if count == 0 else stats.beta.ppf(alpha, count, trials - count + 1)
    high = 1.0 if count == trials else stats.beta.ppf(1 - alpha, count + 1, trials - count)
    assert lower_limit(count, trials, alpha) == pytest.approx(low, rel=1e-8, abs=1e-15)
    assert upper_limit(count, trials, alpha) == pytest.approx(high, rel=1e-8)


@pytest.mark.parametrize("count, trials", COUNTS)
@pytest.mark.parametrize("probability", [0.0, 0.01, 0.5, 0.73, 1.0])
def test_tails_match_the_binomial(count: int, trials: int, probability: float) -> None:
    law = stats.binom(trials, probability)
    assert probability_at_least(count, trials, probability) == pytest.approx(law.sf(count - 1), rel=1e-9, abs=1e-300)
    assert probability_at_most(count, trials, probability) == pytest.approx(law.cdf(count), rel=1e-9, abs=1e-300)
    assert two_sided_p_value(count, trials, probability) <= 1


def test_a_quantile_is_the_first_sufficient_count() -> None:
    for share in 0.05, 0.5, 0.95:
        assert quantile(share, 300, 0.3) == stats.binom.ppf(share, 300, 0.3)


@pytest.mark.parametrize("shape", [0.5, 3.0, 384.0, 50_000.0])
@pytest.mark.parametrize("factor", [0.25, 0.9, 0.999, 1.0, 1.05, 2.0])
def test_gamma_tails_match_scipy(shape: float, factor: float) -> None:
    law, x = stats.gamma(shape), shape * factor
    assert gamma_above(x, shape) == pytest.approx(law.sf(x), rel=1e-6, abs=1e-12)
    if law.sf(x) > 1e-300 and law.cdf(x) > 1e-300:
        assert gamma_two_sided(x, shape) == pytest.approx(2 * min(law.sf(x), law.cdf(x)), rel=1e-6)


def test_gamma_tails_at_zero() -> None:
    assert gamma_two_sided(0.0, 0.5) == 0
    assert gamma_two_sided(0.0, 0.5, 0.5e-6) == pytest.approx(2 * stats.chi2(1).cdf(1e-6), rel=1e-6)
    assert gamma_above(0.0, 3.0) == 1


def test_phi_is_accurate_in_the_tails() -> None:
    for x in -30.0, -5.0, 0.0, 2.0:
        assert phi(x) == pytest.approx(stats.norm.cdf(x), rel=1e-12)


def test_uniformity_p_value_is_calibrated_and_detects_nonuniformity() -> None:
    rng = np.random.default_rng(3)
    rare = sum(uniformity_p_value(rng.random(200)) < 0.1 for _ in range(400))
    assert rare <= stats.binom.ppf(1 - 1e-6, 400, 0.1)
    assert uniformity_p_value(rng.random(2000) ** 1.5) < 1e-9


def test_low_bits_p_values() -> None:
    rng = np.random.default_rng(5)
    assert uniform_low_bits(rng.integers(0, 2**40, 4000), 4) > 1e-6
    assert uniform_low_bits(2 * rng.integers(0, 2**40, 4000), 4) == pytest.approx(0, abs=1e-100)


@pytest.mark.parametrize("law", [GaussianLaw(2.0), MaxNormLaw(2.0)])
def test_noise_of_exactly_zero_refutes_nothing(law: Law) -> None:
    """A release lies on a grid, so it is the exact value once in some thousand times."""
    values = np.full((1, 1), 0.25)
    assert min(law.p_values(values, values).values()) > SIGNIFICANCE
    assert min(law.p_values(np.full((1, 400), 0.25), np.zeros((1, 400))).values()) < SIGNIFICANCE
