"""Fleets that centre their records, under a virtual clock: devices that die before their sum spreads stop no other."""

import numpy as np
import pytest
from sottovoce.algorithms.contributions.codec import ContributionsCodec
from sottovoce.algorithms.contributions.public.acceptance import StepBound
from sottovoce.algorithms.contributions.public.machine import Mixer
from sottovoce.algorithms.contributions.public.shared_mean import CYCLES, SharedMean
from sottovoce.algorithms.contributions.public.state import ContributionsState
from sottovoce.algorithms.steps.public.descent import Schedule
from sottovoce.data import Records
from sottovoce.kernels.softmax import Softmax
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.gradients import GradientTerms, RecordSum
from sottovoce.privacy.vault import Budget, Ledger, SeededNoise
from sottovoce_lab.simulator import Device, Simulation
from sottovoce_lab.simulator.faults import Faults
from sottovoce_lab.testbed.memory_store import MemoryStore
from sottovoce_lab.testbed.unsigned import UnsignedProvenance

COUNT, STEPS, BIAS, RECORDS = 6, 3, 0.3, 20
KERNEL = Softmax(3, 2)
NAMES = [f"agent-{index}" for index in range(COUNT)]


def draw_records(seed: int) -> Records:
    rng = np.random.default_rng(seed)
    angles = rng.normal(size=RECORDS) / 2
    features = np.stack([np.cos(angles), np.sin(angles), np.full(RECORDS, BIAS)], axis=1)
    return Records(features, (angles > 0).astype(np.int64))


def make_fleet() -> list[Device]:
    terms = GradientTerms("clipd2p", STEPS, 0.5, records=RecordSum(3, BIAS))
    budget = Budget(None, 1e-5, "record", "add-remove")
    schedule = Schedule("clipd2p", KERNEL.size, 1.0, STEPS, 2.0, 0.5, float(RECORDS), 2)
    devices = []
    for index, name in enumerate(NAMES):
        learner = Mixer(
            schedule,
            np.zeros(KERNEL.size),
            owner=name,
            provenance=UnsignedProvenance(),
            capacity=16,
            max_steps=STEPS + 1,
            dishonest=0.0,
            bound=StepBound(0.5, 0.0),
            shapes=((3, 2),),
            shared_mean=SharedMean(3, BIAS, float(RECORDS), 0.0, 0.0),
        )
        vault = build(
            records=draw_records(index),
            kernel=KERNEL,
            terms=terms,
            ledger=Ledger.in_memory(name, budget),
            noise=SeededNoise(index),
        )
        others = tuple(other for other in NAMES if other != name)
        devices.append(Device(name, learner, MemoryStore(learner.initial_state()), vault, others))
    return devices


def state_of(device: Device) -> ContributionsState:
    state: ContributionsState = device.store.load().state if device.core is None else device.core.state
    return state


@pytest.mark.parametrize("died_at", [0.5, 3.5])
def test_devices_killed_before_the_mean_has_spread_stop_nobody(died_at: float) -> None:
    devices = make_fleet()
    simulation = Simulation(devices, faults=Faults(), period=1.0, seed=3)
    simulation.start()
    simulation.run_until(died_at)
    for name in NAMES[:2]:
        simulation.kill(name)
    simulation.run_until(CYCLES + STEPS + 15)
    models = [device.model for device in devices[2:]]
    for device, model in zip(devices[2:], models, strict=True):
        assert state_of(device).step == STEPS
        np.testing.assert_array_equal(model, models[0])


def test_all_devices_have_the_mean_of_all_records_and_a_restart_keeps_it() -> None:
    devices = make_fleet()
    simulation = Simulation(devices, faults=Faults(), period=1.0, seed=3)
    simulation.start()
    simulation.run_until(CYCLES + 3)
    expected = np.concatenate([draw_records(index).features for index in range(COUNT)])[:, :2].mean(axis=0)
    means = [state_of(device).mean for device in devices]
    for mean in means:
        assert mean == pytest.approx(expected, abs=0.01)
    simulation.kill(NAMES[0])
    simulation.run_until(CYCLES + 6)
    simulation.restart(NAMES[0])
    simulation.run_until(CYCLES + STEPS + 20)
    restarted = state_of(devices[0])
    assert restarted.mean is not None
    assert means[0] is not None
    assert restarted.mean.tolist() == means[0].tolist()
    assert restarted.step == STEPS
    charges = devices[0].vault.spending().charges
    assert charges == STEPS + 1, "nothing was asked twice"
    assert isinstance(devices[0].learner, Mixer)
    ContributionsCodec(devices[0].learner).encode(restarted)


def test_a_device_that_joins_late_learns_with_the_mean_of_all() -> None:
    devices = make_fleet()
    simulation = Simulation(devices, faults=Faults(), period=1.0, seed=3)
    simulation.start()
    simulation.run_until(0.1)
    simulation.kill(NAMES[0])
    simulation.run_until(CYCLES + STEPS + 10)
    simulation.restart(NAMES[0])
    began = simulation.now
    simulation.run_until(began + STEPS + 6)
    late, other = state_of(devices[0]), state_of(devices[1])
    assert late.step == STEPS, "it has not waited for the public number of cycles"
    assert late.mean == pytest.approx(other.mean, abs=0.1)
