"""PrivUnit's cap: its probability, its privacy, its utility; against SciPy, and known facts about the best cap."""

import math

import numpy as np
import pytest
from sottovoce.privacy.perturbation import Cap
from sottovoce.privacy.perturbation.cap import PROBABILITY_BITS, _tail, best_cap

special = pytest.importorskip("scipy.special")

DIMENSIONS = [2, 3, 4, 5, 10, 40, 41, 42, 57, 640, 785, 7850, 10_000, 100_000]
EPSILONS = [0.01, 0.3, 1.0, 5.0, 12.0, 50.0, 100.0]
CAPS = [(d, e) for d in DIMENSIONS for e in EPSILONS]


def tail(dimension: int, gamma: float) -> float:
    """Return q(γ), by whichever of SciPy's two arguments is not near 1."""
    a = (dimension - 1) / 2
    if gamma * gamma < 0.5:
        return float(special.betaincc(0.5, a, gamma * gamma)) / 2
    return float(special.betainc(a, 0.5, (1 - gamma) * (1 + gamma))) / 2


def mean(dimension: int, gamma: float, odds: float) -> float:
    """Return m at γ, for the odds e^ε q/(1 - q) that ε allows: E t over the cap and the rest, weighted."""
    a, q = (dimension - 1) / 2, tail(dimension, gamma)
    height = math.exp(a * math.log((1 - gamma) * (1 + gamma)) - special.betaln(0.5, a)) / (2 * a)
    odds *= q / (1 - q)
    return height * (odds / (1 + odds) / q - 1 / (1 + odds) / (1 - q))


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_a_cap_s_probability(dimension: int) -> None:
    """This includes values far below 1e-16, where 1 - q is 1."""
    smallest = 1.0
    for gamma in [0.0, 1e-6, *np.linspace(0, min(0.999, 20 / math.sqrt(dimension)), 60), 1 - 2.0**-20]:
        expected = tail(dimension, float(gamma))
        if expected > 1e-280:
            assert _tail(dimension, float(gamma))[0] == pytest.approx(expected, rel=2e-9)
            smallest = min(smallest, expected)
    assert dimension < 40 or smallest < 1e-16


@pytest.mark.parametrize("dimension, epsilon", CAPS)
def test_densities_are_within_epsilon_s_ratio(dimension: int, epsilon: float) -> None:
    """p (1 - q) / ((1 - p) q) ≤ e^ε, and close to it, as long as γ can vary."""
    cap = best_cap(dimension, epsilon)
    q = tail(dimension, cap.gamma)
    outside = 2**PROBABILITY_BITS - cap.inside
    loss = math.log(cap.inside) - math.log(outside) + math.log1p(-q) - math.log(q)
    assert loss < epsilon - 1e-8
    assert loss > epsilon - 1.2e-7 or outside < 2**40


@pytest.mark.parametrize("dimension, epsilon", CAPS)
def test_no_other_cap_is_better(dimension: int, epsilon: float) -> None:
    cap = best_cap(dimension, epsilon)
    assert cap.mean == pytest.approx(mean(dimension, cap.gamma, math.exp(epsilon)), rel=1e-7 + 1e-7 / epsilon)
    for factor in (0.8, 0.98, 1.02, 1.2):
        other = cap.gamma * factor
        if other < 1 - 1e-6:
            assert mean(dimension, other, math.exp(epsilon)) <= cap.mean * (1 + 1e-7 + 1e-7 / epsilon)
    if cap.gamma < 1 - 2e-6:
        assert cap.gamma == pytest.approx(cap.mean, rel=1e-7 + 1e-7 / epsilon)


@pytest.mark.parametrize(
    "dimension, epsilon, error", [(57, 5.0, 16.008), (640, 50.0, 7.0548), (784, 1.0, 4959.12), (57, 1.0, 357.2)]
)
def test_known_errors_are_reproduced(dimension: int, epsilon: float, error: float) -> None:
    """Published to four digits for a γ on a grid; the error at the best γ is lower by less than 2 in 10,000."""
    assert error * (1 - 5e-4) < best_cap(dimension, epsilon).error < error * (1 + 1e-4)


def test_a_known_cap_is_reproduced() -> None:
    """D = 57, ε = 5: for the literature's γ = 0.24084, p = 0.84051 and the error is 16.008."""
    q, moment = _tail(57, 0.24084)
    odds = math.exp(5) * q / (1 - q)
    p = odds / (1 + odds)
    assert p == pytest.approx(0.84051, abs=5e-6)
    assert (moment * (p / q - (1 - p) / (1 - q))) ** -2 - 1 == pytest.approx(16.008, abs=5e-4)


@pytest.mark.parametrize("dimension, epsilon", [(2, 1.0), (3, 2.0), (57, 5.0), (785, 0.1), (785, 30.0)])
def test_the_share_of_the_direction_in_the_second_moment(dimension: int, epsilon: float) -> None:
    """E t² = 1/D + γm (D - 1)/D, by quadrature over the heights."""
    cap = best_cap(dimension, epsilon)
    angles = np.linspace(0, math.pi, 4_000_001)
    weights = np.sin(angles) ** (dimension - 2)
    inside = np.cos(angles) >= cap.gamma
    t_squared = np.cos(angles) ** 2
    expected = sum(
        share * (weights * t_squared)[chosen].sum() / weights[chosen].sum()
        for share, chosen in ((cap.probability, inside), (1 - cap.probability, ~inside))
    )
    assert cap.share * (dimension - 1) / dimension == pytest.approx(expected - 1 / dimension, rel=1e-3, abs=1e-9)


def test_in_one_dimension_it_is_randomised_response() -> None:
    cap = best_cap(1, 2.0)
    assert cap.mean == pytest.approx(math.tanh(1.0), rel=1e-6)
    assert cap.probability == pytest.approx(math.exp(2) / (1 + math.exp(2)), rel=1e-6)
    assert cap.probability / (1 - cap.probability) < math.exp(2)


def test_the_rest_of_the_sphere_always_stays_possible() -> None:
    """p < 1 for every ε."""
    for dimension in (1, 2, 785):
        cap = best_cap(dimension, 500.0)
        assert isinstance(cap, Cap)
        assert 0 < cap.inside < 2**PROBABILITY_BITS
