"""Rotation of peers, so that each is sent to as often as any other."""

from collections.abc import Container, Iterator, Sequence


def in_turn(peers: Sequence[str], turn: int, waiting: Container[str]) -> Iterator[int]:
    """Places of the peers without a message in transit, beginning with the next in rotation.

    Args:
        peers: node ids, in rotation.
        turn: the place of the next.
        waiting: those that have yet to confirm their last message.
    """
    places = ((turn + i) % len(peers) for i in range(len(peers)))
    return (place for place in places if peers[place] not in waiting)
