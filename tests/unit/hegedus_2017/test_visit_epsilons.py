"""Budgets over visits: the paper's shares, and never more than the total."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st
from sottovoce_papers.hegedus_2017.gradient_walk.visits import VisitBudget, visit_epsilons


def test_the_paper_s_shares_are_reproduced() -> None:
    # noise of scale 2/ε per visit at ε = 50: k = 5: 0.2 each; geometric: .08, .16, .32, .64
    assert [2 / epsilon for epsilon in visit_epsilons("k-times", 5, 50.0)] == pytest.approx([0.2] * 5)
    assert [2 / epsilon for epsilon in visit_epsilons("halving", 4, 50.0)] == pytest.approx([0.08, 0.16, 0.32, 0.64])
    assert visit_epsilons("once", 1, 50.0) == (50.0,)


@given(
    st.sampled_from(["once", "k-times", "halving"]),
    st.integers(1, 200),
    st.floats(2.0**-10, 500),
)
def test_all_visits_together_cost_at_most_the_budget(budget: VisitBudget, visits: int, epsilon: float) -> None:
    shares = visit_epsilons(budget, visits, epsilon)
    assert len(shares) == (1 if budget == "once" else visits)
    assert min(shares) > 0
    assert sum(map(Fraction, shares)) <= Fraction(epsilon)
    assert math.fsum(shares) <= epsilon
    assert len(shares) * shares[0] <= epsilon or budget == "halving"


@given(st.integers(1, 1000), st.floats(2.0**-10, 500))
def test_equal_shares_lose_at_most_a_rounding_error(visits: int, epsilon: float) -> None:
    assert sum(visit_epsilons("k-times", visits, epsilon)) == pytest.approx(epsilon, rel=1e-12)


@pytest.mark.parametrize("budget", ["once", "k-times", "halving"])
def test_without_noise_every_visit_is_noise_free(budget: VisitBudget) -> None:
    assert set(visit_epsilons(budget, 3, math.inf)) == {math.inf}
