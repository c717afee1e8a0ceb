"""Record mechanisms that other packages bring, as entry points of the group `sottovoce.mechanisms`.

Their ε is their package's statement: nothing here has proved it, so the budget promises nothing, and a device needs
`privacy.allow_unproved`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sottovoce.perturbation.scheme import Floats, Scheme, Values

Words = Callable[[int], NDArray[np.uint64]]
"""Draws the given number of uniform words of 64 bits."""


@runtime_checkable
class ReleasingScheme(Scheme, Protocol):
    """A scheme that also draws its releases."""

    def release(self, row: Floats, label: int, words: Words) -> Values:
        """The release of one record.

        Args:
            row: float64[d], the transformed record; scale it to length 1 in the norm `norm` yourself.
            label: from 0.
            words: the only randomness to use.

        Returns:
            int64[width].
        """
        ...


@dataclass(frozen=True, slots=True)
class RecordMechanismPlugin:
    """A record mechanism of another package.

    Attributes:
        make: makes it for (features, classes, epsilon).
        law: its noise, in words, for privacy statements.
    """

    make: Callable[[int, int, float], ReleasingScheme]
    law: str
