"""A sum opens within the bound once faults stop; `make cells` plays many more fleets."""

import pytest
from sottovoce.algorithms.cell.public.attempts import leader_order

from tests.cells.liveness import BOUND, play_liveness
from tests.cells.world import World


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(16))
def test_a_sum_opens_within_the_bound(seed: int) -> None:
    assert isinstance(play_liveness(seed), int), f"python -m tests.cells.liveness --seed {seed}"


@pytest.mark.parametrize("beats", [45, 60])
def test_two_halves_that_start_apart_come_to_one_leader(beats: int) -> None:
    world = World(count=8)
    late = world.names[::2]
    world.start(late)
    world.run(beats)
    attempts = {world.state(name).attempt for name in world.names[1::2]}
    assert max(attempts) > 0
    world.restart(late)
    world.run(beats + BOUND)
    assert len(world.informed_devices()) == 8


def test_the_status_says_what_a_round_waits_for() -> None:
    world = World(count=8)  # a roster needs six devices
    order = leader_order(world.names, 0)
    world.start(order[5:])
    world.run(10)
    for name in order[:5]:
        assert "1 more offers: 5 of 6" in world.waits(name)
        assert order[0] in world.waits(name)


def test_one_device_alone_does_not_change_the_leader() -> None:
    world = World(count=8)
    world.start(world.names[1:])
    world.run(200)
    assert world.state(world.names[0]).attempt == 0
