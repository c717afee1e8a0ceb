"""Liar during a descent: all other devices take the same steps, and pay for at most one extra sum."""

import numpy as np
import pytest
from sottovoce.algorithms.cell.public.attempts import leader_order
from sottovoce.algorithms.cell.public.machine import Cells
from sottovoce.algorithms.cell.public.sum_consumer import DescentConsumer
from sottovoce.algorithms.steps.public.descent import Schedule
from sottovoce.data import Records
from sottovoce.kernels.softmax import Softmax
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.cell_gradients import CellGradientTerms
from sottovoce.privacy.vault import Budget, Ledger, SeededNoise
from sottovoce_lab.simulator import Device, Simulation
from sottovoce_lab.simulator.faults import Faults
from sottovoce_lab.testbed.memory_store import MemoryStore

from tests.cells.fleet import Pretended, belongs
from tests.cells.liars import LIARS, NAMED_BY, DealsAnotherSeed, with_another_seed

COUNT, STEPS = 8, 6
CELL = Cell(6, COUNT, 1, 0.7, 1)
KERNEL = Softmax(4, 2)
NAMES = [f"member-{number:02d}" for number in range(COUNT)]


def make_device(number: int, kind: type[Cells]) -> Device:
    name, rng = NAMES[number], np.random.default_rng(number)
    budget, terms = Budget(8.0, 1e-5, "record", "add-remove"), CellGradientTerms("group-sgd", STEPS, 0.5, CELL, 64)
    mechanism = terms.mechanism(KERNEL, budget, by_kernel=False)
    schedule = Schedule("group-sgd", KERNEL.size, 1.0, STEPS, 0.5, 0.5, 5.0, 1)
    consumer = DescentConsumer(
        schedule, np.zeros(KERNEL.size), mechanism.step, mechanism.width, mechanism.largest_value
    )
    learner = kind("group-sgd", owner=name, consumer=consumer, period=1.0, cell=CELL, provenance=Pretended())
    vault = build(
        records=Records(rng.normal(size=(5, 4)), rng.integers(0, 2, 5)),
        kernel=KERNEL,
        terms=terms,
        ledger=Ledger.in_memory(name, budget),
        noise=SeededNoise(number),
        verify_signature=belongs,
    )
    if kind is DealsAnotherSeed:
        with_another_seed(vault)
    others = tuple(other for other in NAMES if other != name)
    return Device(name, learner, MemoryStore(learner.initial_state()), vault, others, is_honest=kind is Cells)


@pytest.mark.parametrize(
    "kind, place", [(kind, place) for kind in LIARS for place in (0, -1) if place in NAMED_BY.get(kind, (0, -1))]
)
def test_a_liar_does_not_disturb_a_descent(kind: str, place: int) -> None:
    liar = leader_order(NAMES, 0)[place]
    devices = [make_device(number, LIARS[kind] if name == liar else Cells) for number, name in enumerate(NAMES)]
    simulation = Simulation(devices, faults=Faults(), period=1.0, seed=1)
    simulation.start()
    simulation.run_until(400)
    states = {device.id: device.core.state for device in devices if device.core is not None and device.id != liar}
    assert [state.slot for state in states.values()] == [STEPS] * (COUNT - 1)
    assert len({state.numerator.tobytes() for state in states.values()}) == 1
    assert max(device.vault.spending().charges for device in devices if device.id != liar) <= STEPS + CELL.spare
    assert {node for state in states.values() for node in state.dishonest} <= {liar}
