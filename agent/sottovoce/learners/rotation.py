"""Rotation of peers, so that all are sent to equally often."""

from collections.abc import Container, Iterator, Sequence


def places_in_turn(peers: Sequence[str], turn: int, waiting: Container[str]) -> Iterator[int]:
    """Yield places of the peers without a message in transit, beginning with the next in rotation.

    Args:
        peers: node ids, in rotation.
        turn: place of the next peer.
        waiting: peers that have yet to confirm their last message.
    """
    places = ((turn + i) % len(peers) for i in range(len(peers)))
    return (place for place in places if peers[place] not in waiting)
