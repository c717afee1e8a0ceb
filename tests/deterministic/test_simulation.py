"""Simulation: reproducible to the bit, with kills, restarts and traffic as documented."""

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sottovoce.algorithms.push_sum.public.machine import WEIGHT_ONE, PushSumState
from sottovoce.algorithms.steps.public.descent import MAX_NUMERATOR
from sottovoce_lab.simulator import Faults, Simulation

from tests.deterministic.fleet import fleet

ROUGH = Faults(loss=0.3, duplicate=0.1, delay=0.4, delay_spread=0.4)


def run(seed: int, faults: Faults = ROUGH, agents: int = 10) -> tuple[str, str]:
    """Run with a kill and a restart, and return digests of all models and of all traffic."""
    devices = fleet(agents, "exponential", seed=7, steps=6)
    simulation = Simulation(devices.devices, faults=faults, period=1.0, seed=seed)
    simulation.start()
    simulation.run_until(5.0)
    simulation.kill("device-1")
    simulation.run_until(8.0)
    simulation.restart("device-1")
    simulation.run_until(40.0)
    models = b"".join(device.model.tobytes() for device in devices.devices if device.model is not None)
    return hashlib.sha256(models).hexdigest(), repr(simulation.traffic)


def test_the_same_seed_yields_the_same_bits() -> None:
    assert run(3) == run(3)


def test_different_seeds_yield_different_runs() -> None:
    models, traffic = zip(*(run(seed) for seed in range(3)), strict=True)
    assert len(set(models)) == 3
    assert len(set(traffic)) == 3


@pytest.mark.parametrize(
    "changed", [replace(ROUGH, loss=0.31), replace(ROUGH, duplicate=0.2), replace(ROUGH, delay=0.5)]
)
def test_every_fault_changes_the_run(changed: Faults) -> None:
    assert run(3, changed) != run(3)


@pytest.mark.process
def test_results_do_not_depend_on_the_hash_seed() -> None:
    program = "from tests.deterministic.test_simulation import run; print(*run(3))"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert outputs == {" ".join(run(3))}


def test_a_killed_device_is_silent_and_resumes_from_its_store() -> None:
    devices = fleet(4, "ring", seed=1, steps=20)
    simulation = Simulation(devices.devices, faults=Faults(), period=1.0, seed=1)
    device = devices.devices[2]
    simulation.start()
    simulation.run_until(6.0)
    simulation.kill(device.id)
    durable = device.store.load()
    asked, model = set(devices.vaults[device.id].first_answers), device.model
    simulation.run_until(30.0)
    assert devices.devices[2].core is None
    assert device.store.load().state is durable.state
    assert set(devices.vaults[device.id].first_answers) == asked
    assert device.model is model
    simulation.restart(device.id)
    assert device.core is not None
    assert device.core.state.numerator is durable.state.numerator
    simulation.run_until(34.9)
    assert device.core.state.cycle == durable.state.cycle + 5, "one immediately, then one per second"
    devices.assert_conserved()


def test_a_device_killed_before_its_first_cycle_stays_dead() -> None:
    devices = fleet(5, "ring", seed=1, steps=2)
    simulation = Simulation(devices.devices, faults=Faults(), period=1.0, seed=1)
    simulation.start()
    simulation.kill("device-3")
    simulation.run_until(10.0)
    assert devices.devices[3].core is None
    assert not devices.vaults["device-3"].first_answers
    simulation.restart("device-3")
    simulation.run_until(15.5)
    assert devices.devices[3].cycle == 6


def test_shares_are_resent_only_if_lost() -> None:
    calm = fleet(6, "ring", seed=1, steps=0)
    simulation = Simulation(calm.devices, faults=Faults(), period=1.0, seed=1)
    simulation.start()
    simulation.run_until(1.0)  # a message to a device that has not started yet is repeated
    early = simulation.traffic.messages
    simulation.run_until(60.0)
    assert simulation.traffic.messages - simulation.traffic.retries == sum(device.cycle for device in calm.devices)
    assert simulation.traffic.retries <= early
    assert simulation.traffic.numbers == 5 * simulation.traffic.messages
    rough = fleet(6, "ring", seed=1, steps=0)
    simulation = Simulation(rough.devices, faults=ROUGH, period=1.0, seed=1)
    simulation.start()
    simulation.run_until(60.0)
    assert simulation.traffic.retries > 10
    assert all(len(device.core.outbox) <= 2 for device in rough.devices if device.core)


def test_messages_and_confirmations_are_lost_equally_often() -> None:
    """Use a loss of 1/2: one attempt in four is confirmed, so a share takes four attempts on average."""
    devices = fleet(2, "ring", seed=1, steps=0)
    simulation = Simulation(devices.devices, faults=Faults(loss=0.5), period=1.0, seed=1)
    simulation.start()
    simulation.run_until(4000.0)
    shares = simulation.traffic.messages - simulation.traffic.retries
    assert shares > 1000
    assert 3.6 < simulation.traffic.messages / shares < 4.4


@pytest.mark.parametrize("topology, agents", [("disconnected", 4), ("exponential", 1), ("ring", 1), ("star", 1)])
def test_isolated_devices_learn_alone(topology: str, agents: int) -> None:
    devices = fleet(agents, topology, seed=1, steps=5)
    simulation = Simulation(devices.devices, faults=ROUGH, period=1.0, seed=1)
    simulation.start()
    while simulation.now < 8.0:
        simulation.step()
        devices.assert_conserved()
    assert simulation.traffic.messages == 0
    for device in devices.devices:
        assert device.core is not None
        assert (device.core.state.step, device.core.state.weight) == (5, WEIGHT_ONE)
        assert device.cycle >= 8
        assert device.model is not None
        assert np.array_equal(device.model, device.core.state.numerator / WEIGHT_ONE)


def test_a_refused_share_stays_with_its_sender() -> None:
    devices = fleet(2, [[1], []], seed=1, steps=0)
    full = np.full_like(devices.initial, MAX_NUMERATOR)
    for store in devices.stores.values():
        store.commit(PushSumState(full, WEIGHT_ONE), [], [], None)
    simulation = Simulation(devices.devices, faults=Faults(), period=1.0, seed=1)
    simulation.start()
    for _ in range(60):
        simulation.step()
        assert devices.account()[0].tolist() == (2 * full).tolist()
    assert simulation.refused_messages > 10
    assert simulation.traffic.messages - simulation.traffic.retries == 1


def test_the_clock_never_runs_backwards() -> None:
    devices = fleet(5, "ring", seed=1, steps=0)
    simulation = Simulation(devices.devices, faults=ROUGH, period=1.0, seed=1)
    simulation.start()
    times = [simulation.now for _ in range(400) if simulation.step()]
    assert times == sorted(times)
    simulation.run_until(times[-1] + 5)
    assert simulation.now == times[-1] + 5
