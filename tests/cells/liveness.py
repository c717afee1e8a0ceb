"""Fleets whose faults stop: groups that start apart, partitions and crashes. A sum then opens within a bound.

python -m tests.cells.liveness SEEDS
python -m tests.cells.liveness --seed SEED
"""

import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sottovoce.privacy.cell import Cell
from sottovoce_lab.simulator.faults import Faults

from tests.cells.world import World

BOUND = 60
"""Beats after the last fault by which every device knows the same sum; stated in docs/explanation/secure-sums.md."""


@dataclass(frozen=True, slots=True)
class Weather:
    """Faults of one fleet; times are in beats.

    Attributes:
        count: number of devices.
        late: number of devices that start later.
        delay: beats by which they start later.
        cut: number of devices in the smaller part of a partition; 0 for no partition.
        first: beat on which the partition begins.
        length: beats that it lasts.
        crash: whether a device is killed during the partition, and restarts when it heals.
    """

    count: int
    late: int
    delay: int
    cut: int
    first: int
    length: int
    crash: bool


def draw_weather(seed: int) -> Weather:
    """Return the faults of a seed: any two groups, 0 to 60 beats apart, and in two of three a partition."""
    fate = random.Random(f"liveness {seed}")
    count = fate.randint(12, 20)
    cut = fate.choice((0, fate.randint(1, count // 2), fate.randint(1, count // 2)))
    return Weather(
        count, fate.randint(1, count - 1), fate.randint(0, 60), cut, fate.randint(0, 70), fate.randint(5, 100),
        fate.random() < 0.3,
    )  # fmt: skip


def play_liveness(seed: int) -> int | str:
    """Play a fleet; return how many beats after its last fault all know the same sum, or what is wrong at the bound."""
    weather, fate = draw_weather(seed), random.Random(f"order {seed}")
    least = fate.randint(weather.count // 2 + 1, weather.count)
    cell = Cell(least=least, most=weather.count, colluding=1, threshold=0.7, spare=1)
    faults = Faults(delay=(delay := fate.choice((0.0, 0.2, 0.4))), delay_spread=delay)
    world = World(count=weather.count, cell=cell, faults=faults, seed=seed)
    names = fate.sample(world.names, weather.count)
    late, cut, crashed = names[: weather.late], fate.sample(names, weather.cut), fate.choice(names)
    world.start(late)
    heals = weather.first + weather.length
    acts: list[tuple[float, Callable[[], object]]] = [(weather.delay, lambda: world.restart(late))]
    if weather.cut:
        acts += [(weather.first, lambda: world.separate(cut)), (heals, lambda: world.separate(()))]
    if weather.cut and weather.crash:
        acts += [(heals - weather.length / 2, lambda: world.simulation.kill(crashed))]
        acts += [(heals, lambda: world.restart([crashed]))]
    for time, act in sorted(acts, key=lambda each: each[0]):
        world.run(time)
        act()
    last, gap = max(1.0, world.simulation.now), None  # all have started after one period
    for beats in range(BOUND + 1):
        if (gap := _find_gap(world.run(last + beats))) is None:
            return beats
    return f"{gap}: {weather}"


def _find_gap(world: World) -> str | None:
    informed = world.informed_devices()
    if len(informed) < len(world.names):
        return f"{len(informed)} of {len(world.names)} devices know the sum"
    if world.largest_charge_count() > world.cell.spare + 1:
        return f"{world.largest_charge_count()} charges"
    sums = {world.state(name).numerator.tobytes() for name in informed}  # type: ignore[union-attr]
    return None if len(sums) == 1 else f"the devices know {len(sums)} different sums"


def play_fleets(seeds: Sequence[int]) -> bool:
    """Play these seeds and print how fast they were; return whether every fleet had its sum within the bound."""
    results = {seed: play_liveness(seed) for seed in seeds}
    beats = sorted(result for result in results.values() if isinstance(result, int))
    for seed, result in results.items():
        if isinstance(result, str):
            print(f"python -m tests.cells.liveness --seed {seed}: {result}", file=sys.stderr)
    if beats:
        print(
            f"{len(beats)} of {len(results)} fleets know the sum within {BOUND} beats of the last fault: half within "
            f"{beats[len(beats) // 2]}, all of these within {beats[-1]}",
            file=sys.stderr,
        )
    return len(beats) == len(results)


if __name__ == "__main__":
    sys.exit(not play_fleets(range(int(sys.argv[1])) if len(sys.argv) == 2 else [int(sys.argv[2])]))
