"""Order in which a receiver processes the messages that arrive in the same cycle."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]


def split_into_rounds(receivers: Places, nodes: int, generator: np.random.Generator) -> Iterator[Places]:
    """Split messages into rounds such that each receiver occurs at most once per round.

    Each receiver processes its messages in random order, one per round, starting in the first round. For example, a
    device that received three models processes them in the first three rounds. No sender is favoured.

    Args:
        receivers: the receiver of each message, int64[m], from 0 to nodes - 1.
        nodes: number of devices.
        generator: random generator for the order.

    Yields:
        the positions in `receivers` of the messages of one round, until every message has been assigned to a round.
    """
    waiting = generator.permutation(len(receivers))
    of = receivers[waiting]
    turn = np.full(nodes, -1)
    while waiting.size:
        turn[of] = waiting  # if several messages have the same receiver, the last assignment wins
        chosen = turn[of] == waiting
        if len(waiting) == len(receivers):
            yield turn[turn >= 0]  # sorted by receiver, for sequential memory access
        else:
            yield waiting[chosen]
        waiting, of = waiting[~chosen], of[~chosen]
