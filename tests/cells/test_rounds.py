"""Fleets under random faults; `make cells` plays many more."""

import random

import numpy as np
import pytest
from sottovoce.algorithms.cell.public.attempts import leader_order
from sottovoce.algorithms.steps.public.descent import UNIT
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.secure_sum.neighbourhoods import cell_neighbourhood_size

from tests.cells.fleet import CLIP
from tests.cells.rounds import play
from tests.cells.world import World

pytestmark = pytest.mark.slow


def test_opened_sums_are_exact_and_unique_per_round() -> None:
    outcomes = [play(seed) for seed in range(150)]
    assert sum(outcome.opened for outcome in outcomes) > 40
    assert sum(outcome.informed for outcome in outcomes) > 200


def test_a_large_cell_opens_the_right_sum_without_a_quarter_of_its_members() -> None:
    world = World(count=140, cell=Cell(least=140, most=140, colluding=7, threshold=0.75))
    assert cell_neighbourhood_size(world.cell, 140) is not None
    world.state_in_a_round(leader := leader_order(world.names, 0)[0])
    gone = random.Random(1).sample([name for name in world.names if name != leader], 30)
    for name in gone:
        world.simulation.kill(name)
    world.simulation.run_until(world.simulation.now + 40.0)
    remaining = {*world.names} - {*gone}
    states = [world.state(name) for name in remaining]
    assert len({state.numerator.tobytes() for state in states if state.numerator is not None}) == 1
    opened = states[0].opened
    assert opened is not None
    assert len(opened.verified.survivors) == 110
    owners = [opened.verified.roster.owners[place] for place in opened.verified.survivors]
    vectors = [world.values[owner] for owner in owners]
    expected = np.mean(
        [vector * min(1.0, CLIP / max(CLIP / 2, float(np.linalg.norm(vector)))) for vector in vectors], axis=0
    )
    assert states[0].numerator is not None
    np.testing.assert_allclose(states[0].numerator / UNIT, expected, atol=1e-4)
