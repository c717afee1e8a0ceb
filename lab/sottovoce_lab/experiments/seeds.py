"""Random streams of a run: all derive from its one seed, and none disturbs another."""

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """Purpose of a stream."""

    DATA = 0
    NOISE = 1
    ENGINE = 2
    MEASURING = 3


def child(seed: int, stream: Stream) -> int:
    """The seed of a stream."""
    return int(np.random.SeedSequence(seed, spawn_key=(stream,)).generate_state(1, np.uint64)[0])


def generator(seed: int, stream: Stream) -> np.random.Generator:
    """The stream itself."""
    return np.random.Generator(np.random.PCG64(child(seed, stream)))
