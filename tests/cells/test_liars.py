"""Liars of each kind, one among 20 devices: all others get the sum, and identify the liar."""

from base64 import b64decode
from dataclasses import replace

import pytest
from msgspec import msgpack
from sottovoce.algorithms.cell.public.attempts import leader_order
from sottovoce.algorithms.cell.public.machine import Cells
from sottovoce.algorithms.cell.public.messages import CellMessage, Doubted
from sottovoce.algorithms.cell.public.proofs import Proof, judge_proof
from sottovoce.learning.learners import Received
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.secure_sum.statements import Accusation

from tests.cells.fleet import belongs, signed
from tests.cells.liars import LIARS, NAMED_BY
from tests.cells.lies import ROLES, play_liar, play_seed
from tests.cells.sparse import sparse_graphs
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
    leader = next(name for name in leader_order(world.names, 0) if name != liar)
    core = world.simulation.devices[leader].core
    assert core is not None
    core._state = replace(world.state(leader), dishonest={}, doubts={})
    world.simulation.run_until(now + 120)
    assert len(world.informed_devices()) == 7
    assert world.largest_charge_count() <= 2


@pytest.mark.parametrize("kind, place", [(kind, place) for kind in LIARS for place in NAMED_BY.get(kind, ROLES)])
def test_a_liar_cannot_block_the_sum(kind: str, place: int) -> None:
    assert play_liar(kind, place, 12) is None


@pytest.mark.parametrize("kind", LIARS)
def test_a_liar_cannot_block_a_sparse_sum(kind: str) -> None:
    with sparse_graphs():
        assert play_liar(kind, NAMED_BY.get(kind, ROLES)[0], 10) is None


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", LIARS)
def test_a_liar_cannot_block_a_sum_of_three_hundred(kind: str) -> None:
    cell = Cell(least=240, most=300, colluding=15, threshold=0.75, spare=1)
    assert play_liar(kind, NAMED_BY.get(kind, ROLES)[0], 300, cell=cell) is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_a_liar_gains_nothing_under_delays(seed: int) -> None:
    what, gain = play_seed(seed)
    assert gain is None, f"python -m tests.cells.lies --seed {seed}: {what}"


def test_a_sum_that_honest_members_cannot_have_made_is_refused() -> None:
    liar = "member-05"
    world = World(count=8, liars={liar: Cells})
    room = next(device for device in world.devices if device.id == liar).vault._cell
    assert room is not None
    mask, far = room.member.mask, 9 * world.mechanism.reach
    room.member.mask = lambda part, width: mask(part + far, width)  # type: ignore[method-assign]
    world.run(20)
    assert not world.sums()
    assert not world.wrongly_struck()
    for device in world.honest:
        learner = device.learner
        assert isinstance(learner, Cells)
        assert learner.progress(world.state(device.id)).details["sums_refused"] >= 2  # type: ignore[operator]


def test_a_sum_that_differs_is_no_accusation() -> None:
    world = World(count=8).run(10)
    accused, accuser, name = world.names[:3]
    state = replace(world.state(name), doubts={accused: {name: "contradicts this device about sum 1"}})
    learner = world.simulation.devices[name].learner
    statement = signed(accuser, Accusation(accused, "lied"))
    state, _ = learner.on(state, Received(accuser, CellMessage(Doubted(statement))), 0.0)
    assert state.doubts[accused].keys() == {name, accuser}
    assert not state.dishonest
    state, _ = learner.on(
        state, Received(world.names[3], CellMessage(Doubted(signed(world.names[3], Accusation(accused, "lied"))))), 0.0
    )
    assert state.dishonest.keys() == {accused}, "two devices accuse it"
