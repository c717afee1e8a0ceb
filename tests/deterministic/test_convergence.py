"""Push-sum under faults: it ends at the values that exact arithmetic requires."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sottovoce.algorithms.push_sum.public.machine import WEIGHT_ONE
from sottovoce.algorithms.steps.public.descent import SHARE_BITS
from sottovoce_lab.simulator import Faults, Simulation

from tests.deterministic.fleet import Fleet, fleet

ROUNDING = 2.0**-SHARE_BITS  # rounding of shares; mass is not rounded


def _run(devices: Fleet, faults: Faults, seconds: float) -> NDArray[np.float64]:
    """Run the fleet, and return every estimate, float64[n, P]."""
    simulation = Simulation(devices.devices, faults=faults, period=1.0, seed=5)
    simulation.start()
    simulation.run_until(seconds)
    estimates = [device.core.state.estimate for device in devices.devices if device.core]
    return np.array(estimates, dtype=np.float64)


def _rms(estimates: NDArray[np.float64], mean: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean((estimates - mean) ** 2)))


@pytest.mark.slow
@pytest.mark.parametrize("topology", ["exponential", "full"])
def test_fifty_devices_reach_the_exact_mean_despite_30_percent_loss(topology: str) -> None:
    devices = fleet(50, topology, seed=3, steps=0, spread=5.0)
    mean = devices.initial / (50 * WEIGHT_ONE)
    early = _run(fleet(50, topology, seed=3, steps=0, spread=5.0), Faults(loss=0.3), 2.0)
    assert _rms(early, mean) > 0.1
    assert _rms(_run(devices, Faults(loss=0.3), 200.0), mean) < ROUNDING


def test_the_mean_survives_a_third_of_the_fleet_restarting() -> None:
    devices = fleet(30, "exponential", seed=3, steps=0, spread=5.0)
    simulation = Simulation(devices.devices, faults=Faults(loss=0.3, duplicate=0.1, delay=0.4, delay_spread=0.4),
                            period=1.0, seed=5)  # fmt: skip
    simulation.start()
    simulation.run_until(8.3)
    for i in range(0, 30, 3):
        simulation.kill(f"device-{i}")
    simulation.run_until(25.0)
    for i in range(0, 30, 3):
        simulation.restart(f"device-{i}")
    simulation.run_until(250.0)
    estimates = np.array([device.core.state.estimate for device in devices.devices if device.core])
    assert len(estimates) == 30
    assert _rms(estimates, devices.initial / (30 * WEIGHT_ONE)) < ROUNDING


def test_devices_with_noisy_gradients_converge_to_the_released_total() -> None:
    devices = fleet(20, "exponential", seed=3, steps=10, epsilon=2.0)
    estimates = _run(devices, Faults(loss=0.2, duplicate=0.05, delay=0.2, delay_spread=0.2), 120.0)
    devices.assert_conserved()
    devices.assert_one_release_per_slot()
    assert all(len(vault.first_answers) == 10 for vault in devices.vaults.values())
    total = np.sum([device.core.state.numerator for device in devices.devices if device.core], axis=0)
    assert not np.array_equal(total, devices.initial), "the gradients did something"
    assert _rms(estimates, estimates.mean(axis=0)) < ROUNDING
    # Shares in flight are a little of the same mixture, so the states at rest show what the fleet has converged to.
    weight = sum(device.core.state.weight for device in devices.devices if device.core)
    assert _rms(estimates, total / weight) < ROUNDING


@pytest.mark.slow
def test_the_hub_of_a_star_forwards_all_mass() -> None:
    devices = fleet(12, "star", seed=3, steps=0, spread=5.0)
    estimates = _run(devices, Faults(loss=0.2), 1500.0)
    assert _rms(estimates, devices.initial / (12 * WEIGHT_ONE)) < ROUNDING
