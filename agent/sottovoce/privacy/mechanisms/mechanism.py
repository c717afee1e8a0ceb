"""Interface of mechanisms, which convert private values into releases."""

from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.mechanisms.noise import NoiseSource

Raw = TypeVar("Raw", contravariant=True)


class Mechanism(Protocol[Raw]):
    """The bound and noise of a release. The noise distribution is public; the charge precedes the noise."""

    @property
    def size(self) -> int:
        """Number of integers in a release."""
        ...

    @property
    def exponent(self) -> int:
        """Exponent of the grid; the grid step of a release is 2**exponent."""
        ...

    def apply(self, raw: Raw, noise: NoiseSource) -> NDArray[np.int64]:
        """Return the release, int64[size], for a program's result.

        The mechanism enforces its own bound, and `noise` is its only source of randomness.
        """
        ...
