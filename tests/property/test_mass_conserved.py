"""Mass under any failures: after every event, the fleet holds its initial mass, to the last bit."""

import random

import pytest
from sottovoce_lab.simulator import Faults, Simulation

from tests.deterministic.fleet import Fleet, PowerCut, fleet, random_graph

FAULTS = Faults(loss=0.5, duplicate=0.05, delay=0.4, delay_spread=0.4)
TOPOLOGIES = [("exponential", 9), ("ring", 6), ("star", 6), ("full", 5), ("full", 2), ("ring", 1), ("disconnected", 3)]


def _run_storm(devices: Fleet, *, seed: int, events: int, kills: float) -> Simulation:
    """Process `events` events, kill and restart devices at random, and check the mass after each."""
    simulation = Simulation(devices.devices, faults=FAULTS, period=1.0, seed=seed)
    fate = random.Random(seed)
    simulation.start()
    for _ in range(events):
        try:
            simulation.step()
        except PowerCut as cut:
            simulation.kill(cut.node)
        devices.assert_conserved()
        alive = [device.id for device in devices.devices if device.core]
        down = [device.id for device in devices.devices if not device.core and device.incarnation]
        if alive and fate.random() < kills:
            simulation.kill(fate.choice(alive))
            devices.assert_conserved()
        if down and fate.random() < 0.3:
            simulation.restart(fate.choice(down))
            devices.assert_conserved()
    devices.assert_one_release_per_slot()
    return simulation


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("topology, agents", TOPOLOGIES)
def test_mass_is_conserved_under_network_faults_kills_and_restarts(topology: str, agents: int, seed: int) -> None:
    devices = fleet(agents, topology, seed=seed, steps=12, fanout=1 + seed % 2)
    _run_storm(devices, seed=seed, events=800, kills=0.03)


@pytest.mark.parametrize("seed", range(12))
def test_mass_is_conserved_when_the_power_fails_at_commits(seed: int) -> None:
    # In a random graph mass may pile up or drain away, but not vanish.
    devices = fleet(7, random_graph(7, seed), seed=seed, steps=12, fanout=1 + seed % 3, power_cuts=0.1)
    _run_storm(devices, seed=seed, events=1500, kills=0.01)


def test_the_storm_exercises_retries_and_recovery() -> None:
    """Check that the storm causes retries, and slots that are queried again after a crash."""
    devices = fleet(7, "exponential", seed=1, steps=30, power_cuts=0.1)
    simulation = _run_storm(devices, seed=1, events=3000, kills=0.02)
    assert simulation.traffic.retries > 20
    assert all(sum(store.cuts[when] for store in devices.stores.values()) > 10 for when in ("before", "after"))
    assert sum(vault.repeats for vault in devices.vaults.values()) > 5
    assert sum(device.incarnation for device in devices.devices) > 50
