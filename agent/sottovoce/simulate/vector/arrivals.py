"""In which order messages reach a receiver, when several do in one cycle."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]


def rounds(receivers: Places, nodes: int, generator: np.random.Generator) -> Iterator[Places]:
    """Split messages into rounds in which every receiver occurs once at most.

    A receiver's messages come in random order, one a round from the first on; so a device that got three models
    processes them one after another, and no sender is favoured.

    Args:
        receivers: int64[m], each 0 … nodes-1.
        nodes: how many devices there are.
        generator: of the order.

    Yields:
        positions in `receivers`, ordered by receiver, until every message has had its turn.
    """
    waiting = generator.permutation(len(receivers))
    next_of = np.empty(nodes, dtype=np.int64)
    while waiting.size:
        next_of.fill(-1)
        next_of[receivers[waiting]] = waiting  # of several messages the last one written stays
        chosen = next_of[next_of >= 0]
        yield chosen
        waiting = waiting[next_of[receivers[waiting]] != waiting]
