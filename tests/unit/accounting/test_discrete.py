"""Discrete noise: published δ, a sum in exact arithmetic, and the bound for vectors."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from sottovoce.errors import PrivacyError
from sottovoce.privacy.accounting.discrete import (
    MAX_SUMMED_SIGMA,
    DiscreteGaussian,
    discrete_gaussian_delta,
    discrete_laplace_epsilon,
    vector_delta,
)
from sottovoce.privacy.accounting.gaussian import gaussian_delta


def exact_delta(epsilon: float, sigma: float, sensitivity: int) -> Decimal:
    """Σ max(0, P[k] - e^ε Q[k]) over integers, 60 digits."""
    with localcontext() as context:
        context.prec = 60
        spread = 2 * Decimal(sigma) ** 2
        reach = range(-math.ceil(30 * sigma) - sensitivity, math.ceil(30 * sigma) + sensitivity + 1)
        law = {k: (-(Decimal(k) ** 2) / spread).exp() for k in range(reach[0] - sensitivity, reach[-1] + 1)}
        factor = Decimal(epsilon).exp()
        terms = (law[k - sensitivity] - factor * law[k] for k in reach)
        return sum((max(Decimal(0), term) for term in terms), Decimal(0)) / sum(law.values())


def test_known_answers() -> None:
    assert discrete_gaussian_delta(1.0, 2.0, 1) == pytest.approx(0.00724878, rel=1e-6)
    assert discrete_gaussian_delta(0.1, 0.5, 1) == pytest.approx(0.7753, abs=1e-4)
    assert discrete_laplace_epsilon(3, 1.5) == pytest.approx(2.0, rel=1e-15)


@pytest.mark.parametrize(
    "epsilon, sigma, sensitivity",
    [(0.0, 1.0, 1), (0.5, 0.3, 1), (1.0, 2.0, 3), (3.0, 2.0, 1), (8.0, 0.7, 2), (0.2, 10.0, 4)],
)
def test_delta_is_exact_and_rounded_up(epsilon: float, sigma: float, sensitivity: int) -> None:
    exact = exact_delta(epsilon, sigma, sensitivity)
    assert exact <= Decimal(discrete_gaussian_delta(epsilon, sigma, sensitivity)) <= exact * (1 + Decimal("1e-9"))
    profile, error = DiscreteGaussian(sigma, sensitivity).profile(np.array([epsilon]))
    assert abs(Decimal(float(profile[0])) - exact) <= Decimal(float(error[0]))


@pytest.mark.parametrize("sigma", [8.0, 100.0, 1000.0])
def test_the_bound_for_vectors_covers_one_number(sigma: float) -> None:
    for epsilon in (0.0, 0.01, 0.1):
        assert discrete_gaussian_delta(epsilon, sigma, 1) <= vector_delta(epsilon, sigma, 1) + 1e-300


def test_beyond_the_summation_limit_the_bound_is_as_good() -> None:
    sigma = 2 * MAX_SUMMED_SIGMA
    assert discrete_gaussian_delta(1e-4, sigma, 5) == pytest.approx(gaussian_delta(1e-4, 5 / sigma), rel=1e-6)


def test_invalid_noise_is_refused() -> None:
    assert vector_delta(1.0, 4.0, 1) == 1.0
    for sigma, sensitivity in ((0.0, 1), (math.nan, 1), (1.0, 0)):
        with pytest.raises(PrivacyError):
            discrete_gaussian_delta(1.0, sigma, sensitivity)
    with pytest.raises(PrivacyError):
        discrete_laplace_epsilon(1, 0.0)
