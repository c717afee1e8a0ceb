"""Order in which a receiver processes several messages of one cycle."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]


def split_into_rounds(receivers: Places, nodes: int, generator: np.random.Generator) -> Iterator[Places]:
    """Split messages into rounds in which every receiver occurs at most once.

    A receiver's messages come in random order, one per round from the first round on. A device that received three
    models thus processes the models one after another, and no sender is favoured.

    Args:
        receivers: receiver of each message, int64[m], each 0 … nodes-1.
        nodes: number of devices.
        generator: generator of the order.

    Yields:
        positions in `receivers`, until every message has been processed.
    """
    waiting = generator.permutation(len(receivers))
    of = receivers[waiting]
    turn = np.full(nodes, -1)
    while waiting.size:
        turn[of] = waiting  # if several messages go to one receiver, the last one written wins
        chosen = turn[of] == waiting
        if len(waiting) == len(receivers):
            yield turn[turn >= 0]  # by receiver, so that memory is read in order
        else:
            yield waiting[chosen]
        waiting, of = waiting[~chosen], of[~chosen]
