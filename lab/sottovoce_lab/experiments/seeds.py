"""Independent random streams for a run, all derived from one seed."""

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """The purpose of a random stream."""

    DATA = 0
    NOISE = 1
    ENGINE = 2
    MEASURING = 3


def derive_seed(seed: int, stream: Stream) -> int:
    """Derive a stream's seed from the run's seed."""
    return int(np.random.SeedSequence(seed, spawn_key=(stream,)).generate_state(1, np.uint64)[0])


def generator(seed: int, stream: Stream) -> np.random.Generator:
    """Create a stream's random generator."""
    return np.random.Generator(np.random.PCG64(derive_seed(seed, stream)))
