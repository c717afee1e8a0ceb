"""Record mechanisms from other packages, as entry points of the group `sottovoce.mechanisms`.

Their ε is only claimed by their package and not proved here, so the budget promises nothing, and a device needs
`privacy.allow_unproved`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sottovoce.perturbation.scheme import Floats, Scheme, Values

Words = Callable[[int], NDArray[np.uint64]]
"""Function that draws the given number of uniform 64-bit words."""


@runtime_checkable
class ReleasingScheme(Scheme, Protocol):
    """A scheme that also draws its releases."""

    def release(self, row: Floats, label: int, words: Words) -> Values:
        """Return the release of one record.

        Args:
            row: float64[d], the transformed record, which the mechanism itself must scale to length 1 in `norm`.
            label: label, counted from 0.
            words: the only source of randomness to use.

        Returns:
            int64[width].
        """
        ...


@dataclass(frozen=True, slots=True)
class RecordMechanismPlugin:
    """A record mechanism from another package.

    Attributes:
        make: makes the scheme for (features, classes, epsilon).
        law: description of its noise, for privacy statements.
    """

    make: Callable[[int, int, float], ReleasingScheme]
    law: str
