"""Liars of each kind, one among 20 devices with one dishonest allowed: all others get the sum, and name the liar."""

from base64 import b64decode
from dataclasses import replace

import pytest
from msgspec import msgpack
from sottovoce.algorithms.cell.public.machine import _leader_order
from sottovoce.secure_sum.proofs import Proof, judge_proof

from tests.cells.fleet import belongs
from tests.cells.liars import LIARS
from tests.cells.lies import lied
from tests.cells.world import World


def test_the_status_has_a_proof_that_everybody_can_verify() -> None:
    liar = "member-05"
    world = World(count=8, liars={liar: LIARS["DealsAnotherSeed"]}).run(60)
    for device in world.honest:
        words = str(device.learner.progress(world.state(device.id)).details["proofs"])
        node, raw = words.split(" ")
        assert node == liar
        assert judge_proof(msgpack.decode(b64decode(raw), type=Proof), world.cell, belongs)[0] == liar


def test_a_leader_that_has_forgotten_a_lie_is_told_of_it_before_anybody_pays() -> None:
    world = World(count=8, liars={(liar := "member-05"): LIARS["DealsAnotherSeed"]})
    world.simulation.start()
    at = 0.0
    while not all(device.core and liar in world.state(device.id).struck for device in world.honest):
        at += 0.1
        world.simulation.run_until(at)
    leader = next(name for name in _leader_order(world.names, 0) if name != liar)
    core = world.simulation.devices[leader].core
    assert core is not None
    core._state = replace(world.state(leader), dishonest={}, doubts={})
    world.simulation.run_until(at + 120)
    assert len(world.knowing()) == 7
    assert world.charges() <= 2


@pytest.mark.parametrize("place", [0, 1, -1])
@pytest.mark.parametrize("kind", LIARS)
def test_one_liar(kind: str, place: int) -> None:
    assert lied(kind, place, 20) is None
