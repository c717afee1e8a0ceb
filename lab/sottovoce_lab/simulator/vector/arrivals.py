"""In which order messages reach a receiver, when several do in one cycle."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]


def rounds(receivers: Places, nodes: int, generator: np.random.Generator) -> Iterator[Places]:
    """Split messages into rounds in which every receiver occurs once at most.

    A receiver's messages come in random order, one per round from the first on; so a device that got three models
    processes them one after another, and no sender is favoured.

    Args:
        receivers: int64[m], each 0 … nodes-1.
        nodes: how many devices there are.
        generator: generator of the order.

    Yields:
        positions in `receivers`, until every message has had its turn.
    """
    waiting = generator.permutation(len(receivers))
    of = receivers[waiting]
    turn = np.full(nodes, -1)
    while waiting.size:
        turn[of] = waiting  # of several messages to one receiver the last one written stays
        chosen = turn[of] == waiting
        if len(waiting) == len(receivers):
            yield turn[turn >= 0]  # by receiver, so that memory is read in order
        else:
            yield waiting[chosen]
        waiting, of = waiting[~chosen], of[~chosen]
