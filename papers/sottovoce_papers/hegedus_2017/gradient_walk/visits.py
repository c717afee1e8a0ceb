"""Divide a device's ε among a walking model's visits, by one of the three budgets of Hegedűs & Jelasity 2017."""

import math
from fractions import Fraction
from typing import Literal

VisitBudget = Literal["once", "k-times", "halving"]


def visit_epsilons(budget: VisitBudget, visits: int, epsilon: float) -> tuple[float, ...]:
    """Return the ε of each visit to a device; these values are public before the first visit.

    On any further visit, the model does not learn from the device's records, so the visit costs nothing.

    Args:
        budget: `once` spends all of ε at the only visit; `k-times` spends ε/k at each of k visits; `halving` spends
            ε/2ʳ at visit r = 1, 2, ….
        visits: k, at least 1; ignored for `once`, which has one visit.
        epsilon: the total ε; infinity for no noise at any visit.

    Returns:
        One value per visit. Their exact sum is at most `epsilon`, and so is the sum rounded to the nearest float.
    """
    if budget == "once":
        return (epsilon,)
    if budget == "halving":
        return tuple(math.ldexp(epsilon, -visit) for visit in range(1, visits + 1))
    share = epsilon / visits
    if math.isfinite(epsilon) and Fraction(share) * visits > Fraction(epsilon):
        share = math.nextafter(share, 0.0)
    return (share,) * visits
