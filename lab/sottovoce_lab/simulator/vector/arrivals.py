"""The order in which a receiver processes the messages that arrive in the same cycle."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


def split_into_rounds(receivers: Indices, nodes: int, generator: np.random.Generator) -> Iterator[Indices]:
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
    targets = receivers[waiting]
    last_message = np.full(nodes, -1)
    while waiting.size:
        last_message[targets] = waiting  # if several messages have the same receiver, the last assignment wins
        is_chosen = last_message[targets] == waiting
        if len(waiting) == len(receivers):
            yield last_message[last_message >= 0]  # sorted by receiver, for sequential memory access
        else:
            yield waiting[is_chosen]
        waiting, targets = waiting[~is_chosen], targets[~is_chosen]
