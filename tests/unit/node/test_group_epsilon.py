"""One person's units: never cheaper than their true cost, and exact for Gaussian or pure mechanisms."""

import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from sottovoce.privacy.accounting.events import GaussianSum, RecordReleased
from sottovoce.privacy.accounting.gaussian import gaussian_epsilon
from sottovoce.privacy.accounting.sampled import SampledGaussian
from sottovoce.reports.explain import epsilon_in_separate_releases, epsilon_in_shared_releases

DELTA = 1e-5
GAUSSIAN, PURE = GaussianSum(10**6, 20_000), RecordReleased(0, "laplace", 3, 2, 0.5)
SAMPLED = SampledGaussian(10**12, 2 * 10**6, "poisson", 1, 20, "add-remove")


@pytest.mark.parametrize("units", [1, 2, 5, 50])
def test_gaussian_and_pure_units_are_exact(units: int) -> None:
    mu = math.sqrt(48 * GAUSSIAN.mu_squared)
    assert epsilon_in_shared_releases({GAUSSIAN: 48}, units, DELTA) == pytest.approx(
        gaussian_epsilon(units * mu, DELTA), rel=1e-9
    )
    assert epsilon_in_separate_releases({GAUSSIAN: 48}, units, DELTA) == pytest.approx(
        gaussian_epsilon(math.sqrt(units) * mu, DELTA), rel=1e-9
    )
    assert (
        epsilon_in_shared_releases({PURE: 1}, units, DELTA)
        == epsilon_in_separate_releases({PURE: 1}, units, DELTA)
        == pytest.approx(0.5 * units)
    )


def test_units_in_separate_releases_compose_as_the_oracle_says() -> None:
    accountant = PLDAccountant()
    accountant.compose(dp_event.PoissonSampledDpEvent(1 / 20, dp_event.GaussianDpEvent(2.0)), 5 * 60)
    assert epsilon_in_separate_releases({SAMPLED: 60}, 5, DELTA) == pytest.approx(
        accountant.get_epsilon(DELTA), rel=5e-3
    )


@pytest.mark.parametrize("units", [1, 2, 3])
def test_sampled_units_together_cover_the_exact_mixture(units: int) -> None:
    """One release over k units, each drawn independently: its integrated δ at the reported ε."""
    rate, deviation = 1 / 20, 2.0 * (1 + 1e-9)
    epsilon = epsilon_in_shared_releases({SAMPLED: 1}, units, DELTA)
    x = np.linspace(-30, 30, 600_001)
    without = np.exp(-(x**2) / 2 / deviation**2)
    chances = [math.comb(units, j) * rate**j * (1 - rate) ** (units - j) for j in range(units + 1)]
    within = sum(chance * np.exp(-((x - j) ** 2) / 2 / deviation**2) for j, chance in enumerate(chances))
    scale = (x[1] - x[0]) / math.sqrt(2 * math.pi) / deviation
    for larger, smaller in ((within, without), (without, within)):
        assert np.maximum(larger - math.exp(epsilon) * smaller, 0).sum() * scale <= DELTA * (1 + 1e-6)


def test_more_units_cost_more_and_too_many_guarantee_nothing() -> None:
    results = [epsilon_in_shared_releases({SAMPLED: 60}, units, DELTA) for units in (1, 2, 3, 5)]
    assert results == sorted(results)
    assert math.isinf(epsilon_in_shared_releases({GAUSSIAN: 4800}, 365, DELTA))
