"""Peer rotation, which ensures that all peers are contacted equally often."""

from collections.abc import Container, Iterator, Sequence


def places_in_turn(peers: Sequence[str], turn: int, waiting: Container[str]) -> Iterator[int]:
    """Yield the positions of peers without a message in transit, starting with the next in the rotation.

    Args:
        peers: the node ids, in rotation order.
        turn: the position of the next peer.
        waiting: the peers that have not yet confirmed their last message.
    """
    places = ((turn + i) % len(peers) for i in range(len(peers)))
    return (place for place in places if peers[place] not in waiting)
