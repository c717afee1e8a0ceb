"""Sources of randomness. A device uses the operating system's generator; only a simulator may use a seed."""

import os
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class NoiseSource(Protocol):
    """A stream of independent, uniform 64-bit words."""

    @property
    def simulated(self) -> bool:
        """Whether the stream is predictable; noise from a predictable stream protects no one."""
        ...

    def random_words(self, count: int) -> NDArray[np.uint64]:
        """Return the next `count` words of the stream, uint64[count]."""
        ...


class OperatingSystemNoise:
    """Source of randomness that uses the operating system's cryptographic generator."""

    simulated = False

    def random_words(self, count: int) -> NDArray[np.uint64]:
        """Return uint64[count] from os.urandom."""
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


class SeededNoise:
    """Reproducible source of randomness for simulations; its releases are marked and never reach a socket."""

    simulated = True

    def __init__(self, seed: int) -> None:
        self._bits = np.random.PCG64(seed)

    def random_words(self, count: int) -> NDArray[np.uint64]:
        """Return uint64[count] from PCG64."""
        return self._bits.random_raw(count).astype(np.uint64, copy=False)
