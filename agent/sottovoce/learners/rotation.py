"""Peer rotation, which ensures that all peers are contacted equally often."""

from collections.abc import Container, Iterator, Sequence


def free_peer_indices(peers: Sequence[str], turn: int, waiting: Container[str]) -> Iterator[int]:
    """Yield the indices of peers without a message in transit, starting with the next peer in the rotation.

    Args:
        peers: the node ids, in rotation order.
        turn: the index of the next peer.
        waiting: the peers that have not yet confirmed their last message.
    """
    rotation = ((turn + i) % len(peers) for i in range(len(peers)))
    return (index for index in rotation if peers[index] not in waiting)
