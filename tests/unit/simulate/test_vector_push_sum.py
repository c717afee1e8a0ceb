"""Push-sum on the vector engine: the agents' state machine, number by number, and the fleet's mass, to the last bit."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.algorithms.push_sum.public.machine import PushSum, PushSumState
from sottovoce.algorithms.steps.public.descent import SHARE_BITS, Schedule
from sottovoce.learning.learners import Ask, PeersChanged, Received, Send
from sottovoce_lab.simulator import out_peers
from sottovoce_lab.simulator.vector.push_sum import PushSumFleet

from tests.unit.learners.support import TICK, FakeRelease

SIZE, AGENTS, GRID = 3, 5, 2.0**-20
SCHEDULE = Schedule("push-sum", SIZE, 1.0, steps=4, step_size=0.5, step_decay=0.3, expected_records=2.0, fanout=2)
START = np.array([0.5, -1.0, 0.25])
TARGETS = np.random.default_rng(7).normal(size=(AGENTS, SIZE))


def release_gradients(points: NDArray[np.float64]) -> tuple[NDArray[np.int64], float]:
    """Return the gradient of half the squared distance from each device's own target, on the grid."""
    return np.rint((points - TARGETS) / GRID).astype(np.int64), GRID


def by_agents(cycles: int, peers: list[list[int]]) -> list[PushSumState]:
    """Run the same fleet with the state machine itself, all devices at once in every cycle."""
    machine = PushSum(SCHEDULE, START)
    states = [machine.initial_state() for _ in range(AGENTS)]
    for device, others in enumerate(peers):
        states[device], _ = machine.on(states[device], PeersChanged(tuple(map(str, others))), 0.0)
    for cycle in range(cycles):
        sent = []
        for device in range(AGENTS):
            states[device], effects = machine.on(states[device], TICK, float(cycle))
            sent += [(device, effect) for effect in effects if isinstance(effect, Send)]
            for effect in effects:
                if isinstance(effect, Ask):
                    points = np.tile(effect.query.point, (AGENTS, 1))
                    answer = FakeRelease(effect.query.id, release_gradients(points)[0][device], GRID)
                    states[device], _ = machine.on(states[device], answer, float(cycle))
        for device, send in sent:
            to = int(send.recipient)
            states[to], _ = machine.on(states[to], Received(str(device), send.message), float(cycle))
        states = [machine.restore(state, frozenset()) for state in states]
    return states


@pytest.mark.parametrize("topology", ["exponential", "ring", "star", "full", "disconnected"])
def test_vector_push_sum_equals_state_machine(topology: str) -> None:
    peers = out_peers(topology, AGENTS)
    fleet = PushSumFleet(SCHEDULE, START, peers, release_gradients)
    for cycle in range(1, 8):
        fleet.step()
        expected = np.stack([state.numerator / state.weight for state in by_agents(cycle, peers)])
        np.testing.assert_array_equal(fleet.models, expected)
    assert fleet.steps == SCHEDULE.steps


@pytest.mark.parametrize("loss", [0.0, 0.3, 0.9])
def test_mass_is_conserved(loss: float) -> None:
    peers = out_peers("exponential", AGENTS)
    fleet = PushSumFleet(SCHEDULE, START, peers, lambda points: (np.zeros(points.shape, np.int64), GRID), loss=loss)
    before = fleet.mass
    for _ in range(60):
        fleet.step()
        np.testing.assert_array_equal(fleet.mass[0], before[0])
        assert fleet.mass[1] == before[1]
    assert np.abs(fleet.models - START).max() < 2.0**-SHARE_BITS


def test_the_seed_determines_losses() -> None:
    peers = out_peers("exponential", AGENTS)

    def after(seed: int) -> NDArray[np.float64]:
        fleet = PushSumFleet(SCHEDULE, START, peers, release_gradients, loss=0.5, seed=seed)
        for _ in range(6):
            fleet.step()
        return fleet.models

    np.testing.assert_array_equal(after(1), after(1))
    assert (after(1) != after(2)).any()
