"""Liars of each kind, one among 20 devices: all others get the sum, and identify the liar."""

from base64 import b64decode
from dataclasses import replace

import pytest
from msgspec import msgpack
from sottovoce.algorithms.cell.public.machine import _leader_order
from sottovoce.privacy.secure_sum.proofs import Proof, judge_proof

from tests.cells.fleet import belongs
from tests.cells.liars import LIARS
from tests.cells.lies import play_liar
from tests.cells.world import World


def test_the_status_contains_a_verifiable_proof() -> None:
    liar = "member-05"
    world = World(count=8, liars={liar: LIARS["DealsAnotherSeed"]}).run(60)
    for device in world.honest:
        words = str(device.learner.progress(world.state(device.id)).details["proofs"])
        node, raw = words.split(" ")
        assert node == liar
        assert judge_proof(msgpack.decode(b64decode(raw), type=Proof), world.cell, belongs)[0] == liar


def test_a_leader_that_forgot_a_lie_learns_of_it_before_any_charge() -> None:
    world = World(count=8, liars={(liar := "member-05"): LIARS["DealsAnotherSeed"]})
    world.simulation.start()
    now = 0.0
    while not all(device.core and liar in world.state(device.id).excluded for device in world.honest):
        now += 0.1
        world.simulation.run_until(now)
    leader = next(name for name in _leader_order(world.names, 0) if name != liar)
    core = world.simulation.devices[leader].core
    assert core is not None
    core._state = replace(world.state(leader), dishonest={}, doubts={})
    world.simulation.run_until(now + 120)
    assert len(world.informed_devices()) == 7
    assert world.largest_charge_count() <= 2


@pytest.mark.parametrize("place", [0, 1, -1])
@pytest.mark.parametrize("kind", LIARS)
def test_a_liar_cannot_block_the_sum(kind: str, place: int) -> None:
    assert play_liar(kind, place, 20) is None
