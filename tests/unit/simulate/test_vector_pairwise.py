"""Averaging in pairs on the vector engine: the fleet's sum, to the last bit, and real agents' results."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.algorithms.pairwise.public.machine import Pairwise
from sottovoce.algorithms.steps.public.descent import UNIT, Schedule, move
from sottovoce_lab.simulator import out_peers
from sottovoce_lab.simulator.vector.pairwise import PairwiseFleet

SIZE, AGENTS, GRID = 3, 5, 2.0**-20
SCHEDULE = Schedule("clipd2p", SIZE, 1.0, steps=4, step_size=0.5, step_decay=0.3, expected_records=2.0, fanout=2)
START = np.array([0.5, -1.0, 0.25])
TARGETS = np.random.default_rng(7).normal(size=(AGENTS, SIZE))


class Targets:
    """Vaults that release the gradient of half the squared distance from each device's own target."""

    def __init__(self) -> None:
        self.moved = np.zeros(SIZE, dtype=np.int64)
        self.before = self.moved
        self.cycle = 0

    def released(self, points: NDArray[np.float64]) -> tuple[NDArray[np.int64], float]:
        values = np.rint((points - TARGETS) / GRID).astype(np.int64)
        self.before, self.moved = self.moved, self.moved + move(SCHEDULE, self.cycle, values, GRID).sum(axis=0)
        self.cycle += 1
        return values, GRID


@pytest.mark.parametrize("topology", ["exponential", "ring", "star", "full", "disconnected"])
@pytest.mark.parametrize("reach", [math.inf, 0.5])
@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_the_models_sum_is_the_starts_sum_minus_all_releases(topology: str, reach: float, loss: float) -> None:
    vaults = Targets()
    learner = Pairwise(SCHEDULE, START, reach=reach, max_steps=100)
    fleet = PairwiseFleet(learner, out_peers(topology, AGENTS), vaults.released, loss=loss)
    before = fleet.total
    for cycle in range(1, 80):
        fleet.step()
        counted = vaults.before if cycle <= SCHEDULE.steps else vaults.moved
        assert fleet.total.tolist() == (before - counted).tolist()
        assert (fleet.cycle, fleet.steps) == (cycle, min(cycle - 1, SCHEDULE.steps))
    spread = np.ptp(fleet.models, axis=0).max()
    assert spread < 2.0**-12 if topology != "disconnected" else spread > 0.1
    assert np.abs(fleet.models.sum(axis=0) - fleet.total / UNIT).max() < 1e-9
