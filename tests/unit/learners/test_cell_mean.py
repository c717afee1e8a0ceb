"""Members of a cell that centre their records by the mean from their first secure sum, under a virtual clock."""

from dataclasses import replace

import numpy as np
import pytest
from sottovoce.algorithms.cell.public.machine import Cells
from sottovoce.algorithms.cell.public.state import CellState
from sottovoce.algorithms.cell.public.sum_consumer import CellMean, DescentConsumer
from sottovoce.algorithms.steps.public.descent import UNIT, Schedule, rate
from sottovoce.data import Records
from sottovoce.errors import PrivacyError
from sottovoce.kernels import per_example_gradients
from sottovoce.kernels.decentralised.centring import Coordinates
from sottovoce.kernels.softmax import Softmax
from sottovoce.privacy.accounting.event_parser import parse_event
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.cell_gradients import CellGradientTerms
from sottovoce.privacy.terms.gradients import RecordSum
from sottovoce.privacy.vault import Budget, Ledger, SeededNoise
from sottovoce.privacy.vault.programs.centred import CentredCellSum
from sottovoce.privacy.vault.programs.gradient import GradientSum
from sottovoce_lab.simulator import Device, Simulation
from sottovoce_lab.simulator.faults import Faults
from sottovoce_lab.testbed.memory_store import MemoryStore
from sottovoce_lab.testbed.unsigned import UnsignedProvenance

from tests.support.exact_epsilon import exact_epsilon

CELL, COUNT, STEPS, BIAS, CLIP = Cell(4, 12, 1, 0.7), 6, 3, 0.3, 0.5
KERNEL = Softmax(3, 2)
TERMS = CellGradientTerms("group-sgd", STEPS + 1, CLIP, CELL, 64, RecordSum(3, BIAS))
SCHEDULE = Schedule("group-sgd", KERNEL.size, 1.0, STEPS, 4.0, 0.5, 5.0, 1)


def draw_records(seed: int) -> Records:
    rng = np.random.default_rng(seed)
    angles = rng.normal(size=5) / 2
    features = np.stack([np.cos(angles), np.sin(angles), np.full(5, BIAS)], axis=1)
    return Records(features, rng.integers(0, 2, 5))


RECORDS = [draw_records(seed) for seed in range(COUNT)]


def learners(epsilon: float | None = None) -> list[Device]:
    budget = Budget(epsilon, 1e-5, "record", "add-remove")
    mechanism, records = TERMS.mechanism(KERNEL, budget, by_kernel=False), TERMS.records
    assert records is not None
    names = [f"agent-{index}" for index in range(COUNT)]
    devices = []
    for index, name in enumerate(names):
        mean = CellMean(3, BIAS, records.clip / CLIP, lambda members: mechanism.share(members) * mechanism.step)
        consumer = DescentConsumer(
            SCHEDULE, np.zeros(KERNEL.size), mechanism.step, mechanism.width, mechanism.largest_value, mean
        )
        learner = Cells(
            "group-sgd", owner=name, consumer=consumer, period=1.0, cell=CELL, provenance=UnsignedProvenance()
        )
        vault = build(
            records=RECORDS[index],
            kernel=KERNEL,
            terms=TERMS,
            ledger=Ledger.in_memory(name, budget),
            noise=SeededNoise(index),
            verify_signature=UnsignedProvenance().verify,
        )
        others = tuple(other for other in names if other != name)
        devices.append(Device(name, learner, MemoryStore(learner.initial_state()), vault, others))
    simulation = Simulation(devices, faults=Faults(), period=1.0, seed=3)
    simulation.start()
    simulation.run_until(40)
    return devices


def test_all_members_descend_over_centred_records_and_publish_a_model_for_the_records() -> None:
    devices = learners()
    features = np.concatenate([records.features for records in RECORDS])
    labels = np.concatenate([records.labels for records in RECORDS])
    coordinates = Coordinates(features[:, :2].mean(axis=0), BIAS)
    model = np.zeros(KERNEL.size)
    for step in range(STEPS):
        rows = next(iter(per_example_gradients(KERNEL, model, coordinates.center_records(features), labels)))
        rows *= np.minimum(1, CLIP / np.linalg.norm(rows, axis=1))[:, np.newaxis]
        model = model - rate(SCHEDULE, step) / (5.0 * COUNT) * rows.sum(axis=0)
    for device in devices:
        assert device.core is not None
        state: CellState = device.core.state
        assert state.slot == STEPS + 1
        assert state.numerator is not None
        assert state.numerator[KERNEL.size : -1] / UNIT == pytest.approx(coordinates.mean, abs=1e-3)
        np.testing.assert_array_equal(state.numerator, devices[0].core.state.numerator)  # type: ignore[union-attr]
        assert device.model is not None
        assert device.model == pytest.approx(coordinates.from_centred(model), abs=1e-3)


def test_the_sum_of_records_and_all_gradients_cost_the_budget() -> None:
    """ε from the ledger's own charges, by a second library."""
    for device in learners(2.0):
        charges = [parse_event(terms) for _, terms, _ in device.vault._context.ledger.charges()]
        assert len(charges) == STEPS + 1
        assert 1.8 < exact_epsilon({event: charges.count(event) for event in charges}, 1e-5) <= 2.0


@pytest.mark.parametrize("kind", [0.0, 1.0])
def test_a_row_of_either_sum_is_as_long_as_the_clip_or_is_clipped(kind: float) -> None:
    program = CentredCellSum(GradientSum(KERNEL, None), 3, BIAS, CLIP / RecordSum(3, BIAS).clip)
    (rows,) = program.compute(np.concatenate([np.zeros(6), [0.5, 0.0], [kind]]), RECORDS[0])
    assert rows.shape == (5, KERNEL.size + 3)
    if kind == 0:
        assert np.linalg.norm(rows, axis=1) == pytest.approx([CLIP] * 5)
        assert not rows[:, 3:].any()
    else:
        assert not rows[:, KERNEL.size :].any()


@pytest.mark.parametrize("point", [(0.5, 0.0, 2.0), (1.0, 0.0, 1.0), (0.5, 0.0, -1.0)])
def test_another_point_gives_no_rows(point: tuple[float, float, float]) -> None:
    program = CentredCellSum(GradientSum(KERNEL, None), 3, BIAS, CLIP)
    assert list(program.compute(np.concatenate([np.zeros(6), point]), RECORDS[0])) == []


def test_the_records_of_a_device_as_the_unit_are_not_summed() -> None:
    with pytest.raises(PrivacyError, match="record"):
        build(
            records=RECORDS[0],
            kernel=KERNEL,
            terms=replace(TERMS),
            ledger=Ledger.in_memory("agent", Budget(1.0, 1e-5, "device", "add-remove")),
            noise=SeededNoise(0),
        )


def test_a_kernel_that_clips_and_sums_is_refused_because_nothing_would_clip_the_records() -> None:
    class Summing(Softmax):
        sum_error = 1e-6  # type: ignore[assignment]

    ledger = Ledger.in_memory("agent", Budget(1.0, 1e-5, "record", "add-remove"))
    with pytest.raises(PrivacyError, match=r"learner\.centre"):
        build(records=RECORDS[0], kernel=Summing(3, 2), terms=TERMS, ledger=ledger, noise=SeededNoise(0))
