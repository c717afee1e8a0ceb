"""The order in which a receiver processes the messages that arrive in the same cycle."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]


def split_into_rounds(receivers: Places, nodes: int, generator: np.random.Generator) -> Iterator[Places]:
    """Split messages into rounds so that each receiver occurs no more than once per round.

    Each receiver processes its messages in random order, one per round, starting with the first round. For example, a
    device that received three models processes them in the first three rounds. No sender is favoured.

    Args:
        receivers: each message's receiver, int64[m], from 0 to nodes - 1.
        nodes: the number of devices.
        generator: generates the order.

    Yields:
        The positions in `receivers` of one round's messages, until every message is assigned to a round.
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
