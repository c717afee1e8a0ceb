"""Games whose worth is a function of one coalition, for tests of Shapley values."""

from collections.abc import Callable

import numpy as np
from sottovoce_papers.pdsl_2025.shapley import Worth

Value = Callable[[frozenset[int]], float]


def make_worth(value: Value) -> Worth:
    """Return the worth that asks for the value of one coalition after the other."""

    def members(mask: int) -> frozenset[int]:
        return frozenset(player for player in range(mask.bit_length()) if mask >> player & 1)

    return lambda masks: np.array([value(members(mask)) for mask in masks.tolist()], dtype=np.float64)
