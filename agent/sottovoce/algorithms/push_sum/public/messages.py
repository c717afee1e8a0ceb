"""Messages between push-sum SGD's devices, before any encoding."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

MAX_WEIGHT = 4 * 2**40
"""Largest push-sum weight of one share, in units of 2^-40: no device can flood another with mass."""


@dataclass(frozen=True, slots=True)
class PushSumShare:
    """A share of push-sum mass.

    Attributes:
        numerator: int64[P] in units of 2^-40.
        weight: the push-sum weight in units of 2^-40, positive.
        simulated: some of it stems from a seeded noise stream; the wire refuses to encode it.
    """

    kind: ClassVar[str] = "push-sum-share/1"

    numerator: NDArray[np.int64]
    weight: int
    simulated: bool = False

    @property
    def numbers(self) -> int:
        """See Message.numbers."""
        return self.numerator.size + 1

    def traced(self) -> dict[str, Any]:
        """See Message.traced."""
        return {"numerator": self.numerator.tolist(), "weight": self.weight}
