"""Source of randomness. A device draws from the operating system; only a simulator may draw from a seed."""

import os
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class NoiseSource(Protocol):
    """Stream of independent, uniform 64-bit words."""

    @property
    def simulated(self) -> bool:
        """Whether the stream can be predicted, so that nothing drawn from it protects anyone."""
        ...

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return the next `count` words, uint64[count]."""
        ...


class OperatingSystemNoise:
    """Noise from the operating system's cryptographic generator."""

    simulated = False

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return uint64[count] from os.urandom."""
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


class SeededNoise:
    """Reproducible stream for simulations; its releases are marked and never reach a socket."""

    simulated = True

    def __init__(self, seed: int) -> None:
        self._bits = np.random.PCG64(seed)

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return uint64[count] from PCG64."""
        return self._bits.random_raw(count).astype(np.uint64, copy=False)
