"""The Gaussian accountant against tables with 40 digits, a second library, and high-precision series."""

import math
from decimal import Decimal, localcontext

import pytest
from sottovoce.privacy.accounting.gaussian import MAX_EPSILON, gaussian_delta, gaussian_epsilon, gaussian_mu

SIGMA_AT_SENSITIVITY_1 = [
    (0.1, 30.749566132, 36.304690426, 52.463995823),
    (1, 3.730631635, 4.224678889, 5.705037703),
    (2, 1.993812446, 2.230476271, 2.946554175),
    (10, 0.499888620, 0.541086832, 0.668675551),
    (50, 0.149760608, 0.156592870, 0.177876938),
]
DELTAS = (1e-5, 1e-6, 1 / 60000**2)


@pytest.mark.parametrize(
    "epsilon, delta, sigma",
    [(row[0], delta, sigma) for row in SIGMA_AT_SENSITIVITY_1 for delta, sigma in zip(DELTAS, row[1:], strict=True)],
)
def test_standard_deviations(epsilon: float, delta: float, sigma: float) -> None:
    assert 1 / gaussian_mu(epsilon, delta) == pytest.approx(sigma, rel=1e-6)
    assert gaussian_epsilon(1 / sigma, delta) == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.parametrize(
    "sigma, releases, epsilon", [(1, 1, 4.37718), (2, 10, 7.51128), (5, 100, 9.99726)], ids=["1", "10", "100"]
)
def test_composed_releases_match_the_table(sigma: float, releases: int, epsilon: float) -> None:
    assert gaussian_epsilon(math.sqrt(releases) / sigma, 1e-5) == pytest.approx(epsilon, rel=1e-6)


def test_the_classical_formula_understates_delta() -> None:
    """The classical σ for (10, 1e-5) has δ = 2.26537e-5."""
    sigma = math.sqrt(2 * math.log(1.25 / 1e-5)) / 10
    assert gaussian_delta(10, 1 / sigma) == pytest.approx(2.26537e-5, rel=1e-5)


@pytest.mark.parametrize("sigma, releases", [(1.0, 1), (3.0, 4), (20.0, 100)])
def test_a_second_accountant_agrees(sigma: float, releases: int) -> None:
    """The second accountant is dp-accounting's privacy loss distributions, which are rounded up themselves."""
    from dp_accounting.pld import privacy_loss_distribution

    pld = privacy_loss_distribution.from_gaussian_mechanism(sigma, value_discretization_interval=1e-4)
    composed = pld.self_compose(releases)
    mu = math.sqrt(releases) / sigma
    for delta in (1e-3, 1e-5, 1e-7):
        assert gaussian_epsilon(mu, delta) == pytest.approx(composed.get_epsilon_for_delta(delta), rel=2e-3)
    for epsilon in (0.1, 1.0, 2.0):
        assert gaussian_delta(epsilon, mu) == pytest.approx(composed.get_delta_for_epsilon(epsilon), rel=2e-3)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 0.1, 1.0, 7.0, 60.0, MAX_EPSILON])
@pytest.mark.parametrize("near", [-11.0, -7.0, -3.0, 0.0, 2.0])
def test_delta_is_rounded_up_by_very_little(epsilon: float, near: float) -> None:
    """At μ with μ/2 - ε/μ = near, so δ ranges from 10^-29 to almost 1."""
    mu = near + math.sqrt(near * near + 2 * epsilon)
    exact = exact_delta(epsilon, mu)
    assert exact <= Decimal(gaussian_delta(epsilon, mu)) <= exact * (1 + Decimal("1e-10")) + Decimal("1e-14")


def exact_delta(epsilon: float, mu: float) -> Decimal:
    with localcontext() as context:
        context.prec = 700
        e, m = Decimal(epsilon), Decimal(mu)
        return phi(m / 2 - e / m) - e.exp() * phi(-m / 2 - e / m)


def phi(x: Decimal) -> Decimal:
    """Return Φ by its series, at the context's precision minus x²/2 ln 10 digits."""
    term, total, n = x, Decimal(0), 1
    while abs(term) > Decimal(10) ** -690:
        total += term
        n += 2
        term = term * x * x / n
    return Decimal("0.5") + total * (-x * x / 2).exp() / (2 * pi()).sqrt()


def pi() -> Decimal:
    """Return π by Machin's formula, at the context's precision."""

    def arctan_of_inverse(n: int) -> Decimal:
        power, total, k = 1 / Decimal(n), Decimal(0), 0
        while abs(power) > Decimal(10) ** -705:
            total += power / (2 * k + 1)
            power, k = -power / (n * n), k + 1
        return total

    return 4 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239))


def test_extreme_values() -> None:
    assert gaussian_delta(1.0, 0.0) == 0.0
    assert gaussian_delta(0.0, math.inf) == 1.0
    assert gaussian_epsilon(math.inf, 1e-5) == math.inf
    assert gaussian_epsilon(1e-9, 1e-5) == 0.0
    assert gaussian_epsilon(1000.0, 1e-5) == math.inf


@pytest.mark.parametrize(
    "epsilon, delta",
    [(0, 1e-5), (-1, 1e-5), (1000, 1e-5), (math.inf, 1e-5), (math.nan, 1e-5), (1, 0), (1, 1), (1, -1), (1, math.nan)],
)
def test_an_invalid_budget_has_no_mu(epsilon: float, delta: float) -> None:
    with pytest.raises(ValueError, match="epsilon"):
        gaussian_mu(epsilon, delta)
