"""Member that sends forged results and answers: no device accepts any of them."""

import contextlib
import random
from dataclasses import replace

import numpy as np
import pytest
from sottovoce.algorithms.cell.public.machine import Cells
from sottovoce.algorithms.cell.public.messages import AnyContent, CellMessage, Known, Result
from sottovoce.algorithms.cell.public.state import CellState
from sottovoce.errors import MessageRefused
from sottovoce.learning.learners import PeersChanged, Received

from tests.cells.liars import Forger
from tests.cells.world import World

pytestmark = pytest.mark.slow


def _deliver(cells: Cells, state: CellState, liar: str, content: AnyContent) -> CellState:
    """Hand a message to the learner, and return the state after it."""
    with contextlib.suppress(MessageRefused):
        state, _ = cells.on(state, Received(liar, CellMessage(content)), 0.0)
    return state


def test_a_forged_result_is_never_accepted() -> None:
    world = World(count=20)
    cells = world.devices[0].learner
    assert isinstance(cells, Cells)
    forger, rng = Forger("member-07", world.names, world.size, seed=1), random.Random(1)
    waiting = world.state_in_a_round("member-00")
    for _ in range(10_000):
        forgery = forger.forge(rng.choice(("result", "known")))
        assert isinstance(forgery, Result | Known)
        after = _deliver(cells, waiting, "member-07", forgery)
        assert after.slot == 0
        assert after.numerator is None


def test_a_member_s_answers_count_once_however_many_it_sends() -> None:
    world = World(count=20)
    cells, forger = world.devices[0].learner, Forger("member-07", world.names, world.size, seed=2)
    assert isinstance(cells, Cells)
    state = replace(cells.initial_state(), exhausted=True)
    state, _ = cells.on(state, PeersChanged(tuple(world.names[1:])), 0.0)
    answer = forger.known(np.zeros(world.size, dtype=np.int64))
    for _ in range(40):
        state = _deliver(cells, state, "member-07", answer)
    assert state.slot == 0


def test_an_answer_under_another_member_s_name_is_refused() -> None:
    world = World(count=20)
    cells, forger = world.devices[0].learner, Forger("member-07", world.names, world.size, seed=3)
    answer = forger.known(np.zeros(world.size, dtype=np.int64))
    with pytest.raises(MessageRefused):
        cells.on(cells.initial_state(), Received("member-08", CellMessage(answer)), 0.0)
