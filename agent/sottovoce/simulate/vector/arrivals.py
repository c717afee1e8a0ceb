"""In which order messages reach a receiver, when several do in one cycle."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]


def rounds(receivers: NDArray[np.int64], nodes: int, generator: np.random.Generator) -> Iterator[Places]:
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
    if not receivers.size:
        return
    order, ranks = _ranked(receivers, nodes, generator)
    for rank in range(int(ranks.max()) + 1):
        yield order[ranks == rank]


def _ranked(
    receivers: NDArray[np.int64], nodes: int, generator: np.random.Generator
) -> tuple[Places, NDArray[np.uint32]]:
    """Positions sorted by receiver, and the rank of each among the messages of its receiver.

    Receiver, random bits and position share one 64-bit key: sorting bare integers is several times as fast as sorting
    positions by them.
    """
    high = (nodes - 1).bit_length()
    low = (len(receivers) - 1).bit_length()
    positions = np.uint64((1 << low) - 1)
    keys = generator.integers(0, 2**63, len(receivers), dtype=np.uint64) >> np.uint64(high) & ~positions
    keys |= receivers.astype(np.uint64) << np.uint64(63 - high) | np.arange(len(receivers), dtype=np.uint64)
    keys.sort()
    order = (keys & positions).astype(np.int64)
    sorted_receivers = keys >> np.uint64(63 - high)
    ranks = np.zeros(len(order), dtype=np.uint32)
    again = np.flatnonzero(sorted_receivers[1:] == sorted_receivers[:-1]) + 1
    while again.size:  # as many rounds as the busiest receiver has messages
        ranks[again] += np.uint32(1)
        again = again[1:][np.diff(again) == 1]
    return order, ranks
