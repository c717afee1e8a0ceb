"""Random streams of a run: all derive from one seed, and none affects another."""

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """Purpose for which a run uses a random stream."""

    DATA = 0
    NOISE = 1
    ENGINE = 2
    MEASURING = 3


def derive_seed(seed: int, stream: Stream) -> int:
    """Derive the seed of a stream."""
    return int(np.random.SeedSequence(seed, spawn_key=(stream,)).generate_state(1, np.uint64)[0])


def generator(seed: int, stream: Stream) -> np.random.Generator:
    """Create the generator of a stream."""
    return np.random.Generator(np.random.PCG64(derive_seed(seed, stream)))
