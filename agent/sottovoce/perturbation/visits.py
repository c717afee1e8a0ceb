"""Division of a device's ε among the visits of a walking model: the three budgets of Hegedűs & Jelasity 2017."""

import math
from fractions import Fraction
from typing import Literal

VisitBudget = Literal["once", "k-times", "halving"]


def visit_epsilons(budget: VisitBudget, visits: int, epsilon: float) -> tuple[float, ...]:
    """Return ε of each visit to a device, public before the first visit; further visits cost and teach nothing.

    Args:
        budget: `once`: all of it at the only visit; `k-times`: ε/k at each of k; `halving`: ε/2ʳ at visit r = 1, 2, ….
        visits: k, at least 1; ignored for `once`, which has one visit.
        epsilon: the total ε; infinity for no noise at any visit.

    Returns:
        one value per visit. Their exact sum is at most `epsilon`, and so is that sum rounded to nearest.
    """
    if budget == "once":
        return (epsilon,)
    if budget == "halving":
        return tuple(math.ldexp(epsilon, -visit) for visit in range(1, visits + 1))
    share = epsilon / visits
    if math.isfinite(epsilon) and Fraction(share) * visits > Fraction(epsilon):
        share = math.nextafter(share, 0.0)
    return (share,) * visits
