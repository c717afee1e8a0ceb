"""Member that lies in its messages, and what it gains from a fleet whose other members are honest."""

from sottovoce.algorithms.cell.public.machine import _leader_order

from tests.cells.liars import LIARS, OF_LEADERS, OF_MEMBERS, SILENT
from tests.cells.world import World

_SECONDS = 90.0


def play_liar(kind: str, place: int, count: int) -> str | None:
    """Play a liar; return its gain, or None if all others get the sum, for at most one extra charge, and most name it.

    Args:
        kind: kind of liar, a name in LIARS.
        place: place of the liar, in the order in which the devices lead.
        count: number of devices.
    """
    liar = _leader_order([f"member-{number:02d}" for number in range(count)], 0)[place]
    world = World(count=count, liars={liar: LIARS[kind]}).run(_SECONDS)
    if len(world.informed_devices()) < count - 1:
        return f"{len(world.informed_devices())} of {count - 1} honest devices know the sum"
    if world.largest_charge_count() > 2:
        return f"{world.largest_charge_count()} charges"
    if world.wrongly_struck():
        return f"honest devices were struck: {', '.join(sorted(world.wrongly_struck()))}"
    lies_here = kind not in (OF_MEMBERS if place == 0 else OF_LEADERS) and kind not in SILENT
    if lies_here and 2 * len(world.devices_naming(liar)) < count:
        return f"{len(world.devices_naming(liar))} of {count - 1} honest devices name the liar"
    return None
