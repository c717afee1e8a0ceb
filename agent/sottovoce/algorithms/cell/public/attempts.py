"""Attempts at a sum: which device leads each attempt, and when the devices move on to the next one.

All devices go through the same sequence of leaders, and a device that waits in vain *wishes* for the next attempt and
tells all others. The current attempt is the highest for which more devices wish than may be dishonest. A device that
learns of such an attempt adopts it, and wishes for it too. So all devices that exchange messages come to the same
attempt, however far apart they started, and no dishonest device alone can change the leader. This is the view
synchroniser of Byzantine consensus (Bravo, Chockler & Gotsman, "Making Byzantine consensus live", 2020) without its
quorum: privacy does not depend on the leader, so there is nothing to agree on.
"""

from collections.abc import Collection, Iterable
from hashlib import sha256


def leader_order(nodes: Iterable[str], slot: int) -> list[str]:
    """Return the nodes in the order in which they lead the attempts at this sum."""
    return sorted(nodes, key=lambda node: sha256(f"sottovoce/leader/v1|{slot}|{node}".encode()).digest())


def leader_of(nodes: Collection[str], barred: Collection[str], slot: int, attempt: int) -> str:
    """Return the leader of an attempt: the next device in order that is not barred.

    A barred device keeps its place in the order, so that devices which do not bar it name the same later leaders.

    Args:
        nodes: all devices, at least one of which is not barred.
        barred: devices that this device never follows.
        slot: the number of the sum.
        attempt: the number of the attempt, from 0.
    """
    order = leader_order(nodes, slot)
    turn = attempt % len(order)
    return next(node for node in (*order[turn:], *order[:turn]) if node not in barred)


def current_attempt(wishes: Iterable[int], colluding: int) -> int:
    """Return the highest attempt for which more devices wish than may be dishonest, and at least two devices.

    Args:
        wishes: the highest attempt that each device has wished for, one number for each device.
        colluding: the number of devices that may be dishonest.
    """
    ranked = sorted(wishes, reverse=True)
    dishonest = max(1, colluding)
    return ranked[dishonest] if len(ranked) > dishonest else 0
