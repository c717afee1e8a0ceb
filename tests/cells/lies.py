"""Members that lie in their messages, and what they gain from fleets whose other members are honest.

python -m tests.cells.lies SEEDS [FIRST]
python -m tests.cells.lies --seed SEED
"""

import random
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext

from sottovoce.algorithms.cell.public.attempts import leader_order
from sottovoce.privacy.cell import Cell
from sottovoce_lab.simulator.faults import Faults

from tests.cells.liars import LIARS, NAMED_BY, UNNAMED, seeded
from tests.cells.sparse import sparse_graphs
from tests.cells.world import World

_BEATS = 90
ROLES = (0, 1, -1)
"""Places in the order in which the devices lead: the leader, its first deputy, and a member that is neither."""


def play_liar(
    kind: str, place: int, count: int, *, cell: Cell | None = None, seed: int = 1, faults: Faults | None = None
) -> str | None:
    """Play a liar; return its gain, or None if all others get one sum, for at most one extra round, and most name it.

    Args:
        kind: kind of liar, a name in LIARS.
        place: place of the liar, in the order in which the devices lead.
        count: number of devices.
        cell: rule of the cell; by default, World's.
        seed: seed of all randomness.
        faults: faults of the network.
    """
    liar = leader_order([f"member-{number:02d}" for number in range(count)], 0)[place]
    world = World(count=count, liars={liar: seeded(LIARS[kind], seed)}, cell=cell, faults=faults, seed=seed).run(_BEATS)
    if world.wrongly_struck():
        return f"honest devices were struck: {', '.join(sorted(world.wrongly_struck()))}"
    if len(world.informed_devices()) < count - 1:
        return f"{len(world.informed_devices())} of {count - 1} honest devices know the sum"
    if len(world.sums()) > 1:
        return f"honest devices know {len(world.sums())} different sums"
    if world.largest_charge_count() > 2:
        return f"{world.largest_charge_count()} charges"
    if kind not in UNNAMED and place in NAMED_BY.get(kind, ROLES) and 2 * len(world.devices_naming(liar)) < count:
        return f"{len(world.devices_naming(liar))} of {count - 1} honest devices name the liar"
    return None


def play_seed(seed: int) -> tuple[str, str | None]:
    """Play a liar of any kind in any role, in a cell of 8, 12 or 20 devices; return its description and its gain.

    In half of the cells, the graph is sparse.
    """
    fate = random.Random(f"liar {seed}")
    kind, place, count = fate.choice(sorted(LIARS)), fate.choice(ROLES), fate.choice((8, 12, 20))
    delay = fate.choice((0.0, 0.1, 0.4))
    is_sparse = fate.random() < 0.5
    with sparse_graphs() if is_sparse else nullcontext():
        gain = play_liar(kind, place, count, seed=seed, faults=Faults(delay=delay, delay_spread=delay))
    return f"{kind} at place {place} of {count}, on a {'sparse' if is_sparse else 'complete'} graph", gain


def play_seeds(seeds: Sequence[int]) -> bool:
    """Play these seeds and print each gain; return whether no liar gained anything."""
    kinds: Counter[str] = Counter()
    gains = 0
    with ProcessPoolExecutor() as pool:
        for seed, (what, gain) in zip(seeds, pool.map(play_seed, seeds, chunksize=4), strict=True):
            kinds[what.partition(" ")[0]] += 1
            if gain is not None:
                gains += 1
                print(f"python -m tests.cells.lies --seed {seed}: {what}: {gain}", file=sys.stderr, flush=True)
    print(f"{len(seeds)} liars of {len(kinds)} kinds, of which {gains} gained something", file=sys.stderr)
    return not gains


if __name__ == "__main__":
    if sys.argv[1] == "--seed":
        sys.exit(not play_seeds([int(sys.argv[2])]))
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    sys.exit(not play_seeds(range(first, first + int(sys.argv[1]))))
