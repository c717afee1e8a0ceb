"""Record mechanisms that other packages provide as entry points in the group `sottovoce.mechanisms`.

Their packages claim an ε that is not proved here. The budget therefore provides no guarantee, and a device must set
`privacy.allow_unproved` to use such a mechanism.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.perturbation.scheme import Floats, Scheme, Values

Words = Callable[[int], NDArray[np.uint64]]
"""A function that draws a given number of uniform 64-bit words."""


@runtime_checkable
class ReleasingScheme(Scheme, Protocol):
    """A scheme that also generates its releases."""

    def release(self, row: Floats, label: int, words: Words) -> Values:
        """Return the release of one record.

        Args:
            row: float64[d], the transformed record, which the mechanism must scale to length 1 in `norm`.
            label: the record's label, counted from 0.
            words: the only source of randomness to use.

        Returns:
            int64[width].
        """
        ...


@dataclass(frozen=True, slots=True)
class RecordMechanismPlugin:
    """A record mechanism from another package.

    Attributes:
        make: function that creates the scheme for (features, classes, epsilon).
        law: description of the scheme's noise for privacy statements.
    """

    make: Callable[[int, int, float], ReleasingScheme]
    law: str
