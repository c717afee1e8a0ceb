"""docs/decisions/0003: the continuous closed form at variance σ² - 16 bounds the discrete Gaussian."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.privacy.accounting.events import SMOOTHING_VARIANCE, GaussianSum
from sottovoce.privacy.accounting.gaussian import gaussian_delta


def masses(sigma: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the integers within 12σ of zero, and their probabilities."""
    support = np.arange(-12 * sigma, 12 * sigma + 1, dtype=np.float64)
    weights = np.exp(-(support**2) / (2 * sigma**2))
    return support, weights / math.fsum(weights)


def exact_delta(sigma: int, shift: tuple[int, int], epsilon: float) -> float:
    """Return Σ max(0, P(k) - e^ε P(k + shift)) over the lattice Z², for a shift (a, b) with a, b ≥ 0 and b > 0."""
    support, mass = masses(sigma)
    a, b = shift
    tail = np.concatenate([np.cumsum(mass[::-1])[::-1], [0.0]])

    def beyond(y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return P[Y >= y]."""
        result: NDArray[np.float64] = tail[np.clip(y - support[0], 0, len(mass)).astype(np.int64)]
        return result

    # a term is positive where a x + b y > ε σ² - (a² + b²)/2: for every x, from some y on
    first = np.floor((epsilon * sigma**2 - (a * a + b * b) / 2 - a * support) / b) + 1
    moved = np.concatenate([mass[a:], np.zeros(a)])
    return math.fsum(mass * beyond(first)) - math.exp(epsilon) * math.fsum(moved * beyond(first + b))


SHIFTS = [(0, 1), (1, 1), (3, 4), (5, 12), (40, 9), (0, 200), (200, 150), (0, 601), (333, 1200)]


@pytest.mark.parametrize("sigma", [600, 1024, 2000])
@pytest.mark.parametrize("shift", SHIFTS)
def test_the_closed_form_is_never_exceeded(sigma: int, shift: tuple[int, int]) -> None:
    x, y = shift
    mu = math.sqrt(GaussianSum(x * x + y * y, sigma).mu_squared)
    for share in (0.0, 0.1, 0.5, 1.0, 2.0, 3.0):
        epsilon = share * mu
        exact, bound = exact_delta(sigma, (x, y), epsilon), gaussian_delta(epsilon, mu)
        assert exact <= bound + 1e-15
        assert bound == pytest.approx(exact, rel=0.05, abs=1e-12)  # the oracle is sensitive, and the bound tight


@pytest.mark.parametrize("sigma", [5, 6, 8, 20])
@pytest.mark.parametrize("shift", [(0, 1), (1, 1), (2, 3), (0, 7), (12, 5)])
def test_the_smallest_bounded_sigma_does_not_exceed_it_either(sigma: int, shift: tuple[int, int]) -> None:
    mu = math.sqrt(GaussianSum(shift[0] ** 2 + shift[1] ** 2, sigma).mu_squared)
    for epsilon in (0.0, 0.05, 0.3, 1.0, 3.0, 8.0):
        assert exact_delta(sigma, shift, epsilon) <= gaussian_delta(epsilon, mu) + 1e-15


@pytest.mark.parametrize("sigma", [0, 1, 4])
def test_below_that_sigma_a_release_costs_everything(sigma: int) -> None:
    assert GaussianSum(1, sigma).mu_squared == math.inf


def test_the_oracle_reproduces_a_published_figure() -> None:
    """Discrete Gaussian, σ = 2, shift 1, ε = 1: δ = 0.00724878; the continuous distribution has 0.00682959."""
    assert exact_delta(2, (0, 1), 1.0) == pytest.approx(0.00724878, rel=1e-5)
    assert exact_delta(2, (0, 1), 1.0) > gaussian_delta(1.0, 0.5)


@pytest.mark.parametrize("variance, smoothing", [(9.0, 0.25), (9.0, 1.0), (0.5, 1.0), (30.0, 4.0)])
def test_randomly_rounding_a_continuous_gaussian_yields_the_discrete_one(variance: float, smoothing: float) -> None:
    """Steps 1 and 2 of the proof, by quadrature: within (1 ± e)/(1 ∓ e), e = 2 Σ exp(-2π²m² τ²)."""
    fine = 1024
    y = np.arange(-80 * fine, 80 * fine + 1) / fine
    density = np.exp(-(y**2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)
    near = np.arange(-100, 101)
    theta = sum(np.exp(-((j - y) ** 2) / (2 * smoothing)) for j in near)
    e = 2 * sum(math.exp(-2 * math.pi**2 * m * m * smoothing) for m in range(1, 20))
    flat = math.sqrt(2 * math.pi * smoothing)
    assert (np.abs(theta / flat - 1)[np.abs(y) < 60] <= e + 1e-12).all()
    k = np.arange(-10, 11)
    rounded = np.array([np.sum(density * np.exp(-((i - y) ** 2) / (2 * smoothing)) / theta) / fine for i in k])
    weights = np.exp(-(near.astype(np.float64) ** 2) / (2 * (variance + smoothing)))
    discrete = weights[k - near[0]] / weights.sum()
    ratio = rounded / discrete
    assert ratio.max() <= (1 + e) / (1 - e) + 1e-9
    assert ratio.min() >= (1 - e) / (1 + e) - 1e-9
    assert np.abs(ratio - 1).max() > 1e-4 or smoothing >= 1


def test_the_smoothing_is_negligible() -> None:
    """For 2^50 coordinates in a lifetime, all releases together: the factor on e^ε and δ stays within 2^-400 of 1."""
    log2_e = 1.01 - 2 * math.pi**2 * SMOOTHING_VARIANCE / math.log(2)
    assert log2_e < -450
    assert 50 + 3 + log2_e < -400
