"""Walks: never lost or duplicated, whatever happens to messages and devices."""

import json
import random
from typing import Any

import numpy as np
import pytest
from sottovoce.data import Records
from sottovoce.privacy.terms import build
from sottovoce.privacy.vault import Budget, Ledger, SeededNoise
from sottovoce_lab.simulator import Device, Faults, Simulation, Trace, out_peers
from sottovoce_papers.hegedus_2017.gradient_walk.private.terms import WalkTerms
from sottovoce_papers.hegedus_2017.gradient_walk.public.machine import (
    GradientWalk,
    GradientWalkSchedule,
    GradientWalkState,
)
from sottovoce_papers.hegedus_2017.gradient_walk.public.messages import GradientWalkMessage
from sottovoce_papers.hegedus_2017.gradient_walk.visits import visit_epsilons

from tests.deterministic.fleet import FailingStore, PowerCut

FEATURES, VISITS, EPSILON = 3, 5, 8.0
ROUGH = Faults(loss=0.3, duplicate=0.2, delay=0.4, delay_spread=0.4)


def make_walk_devices(
    agents: int, seed: int, *, starters: int = 1, power_cuts: float = 0.0, topology: str = "ring"
) -> list[Device]:
    """Make devices with three records each; the first `starters` devices start a walk."""
    rng, fault_rng = np.random.default_rng(seed), random.Random(seed)
    names = [f"device-{i}" for i in range(agents)]
    devices = []
    for i, peers in enumerate(out_peers(topology, agents)):
        records = Records(rng.normal(size=(3, FEATURES)), rng.integers(0, 2, 3))
        epsilons = visit_epsilons("k-times", VISITS, EPSILON)
        vault = build(
            records=records,
            kernel=None,
            terms=WalkTerms("gradient-walk", "pegasos", FEATURES, 2, epsilons, "joint", "declared"),
            ledger=Ledger.in_memory(names[i], Budget(EPSILON, 1e-5, "record", "replace-one")),
            noise=SeededNoise(seed + i),
        )
        learner = GradientWalk(GradientWalkSchedule("gradient-walk", 1, FEATURES, 1.0, VISITS, begins=i < starters))
        store = FailingStore(names[i], learner.initial_state(), fault_rng, power_cuts)
        devices.append(Device(names[i], learner, store, vault, tuple(names[j] for j in peers)))
    return devices


def _count_walks(devices: list[Device]) -> tuple[int, int, int]:
    """Count all walks, on devices and in transit, with their steps and the devices' visits."""
    walks = steps = visits = 0
    seen = {device.id: device.store.load().seen for device in devices}
    for device in devices:
        saved = device.store.load()
        state: GradientWalkState = device.core.state if device.core else saved.state
        visits += state.releases
        ages = [walk.age for walk in state.walks]
        if not state.begun and isinstance(device.learner, GradientWalk) and device.learner.schedule.begins:
            ages.append(0)  # the walk begins when the device starts
        for outgoing in device.core.outbox if device.core else saved.outbox:
            newest = seen[outgoing.recipient].get(device.id)
            if newest is None or newest.sequence < outgoing.sequence:
                assert isinstance(outgoing.parcel, GradientWalkMessage)
                ages.append(outgoing.parcel.age)
        walks, steps = walks + len(ages), steps + sum(ages)
    return walks, steps, visits


def _advance(simulation: Simulation, devices: list[Device], until: float, walks: int = 1) -> None:
    """Advance event by event; a device whose power fails is down for a while."""
    down: dict[str, float] = {}
    while simulation.now < until:
        for node in [node for node, back in down.items() if back <= simulation.now]:
            del down[node]
            try:
                simulation.restart(node)
            except PowerCut:
                simulation.kill(node)
                down[node] = simulation.now + 2.5
        try:
            simulation.step()
        except PowerCut as cut:
            simulation.kill(cut.node)
            down[cut.node] = simulation.now + 2.5
        walk_count, steps, visits = _count_walks(devices)
        assert walk_count == walks
        assert steps == visits, "every step of a walk is exactly one visit"


@pytest.mark.parametrize("faults", [Faults(), ROUGH])
@pytest.mark.parametrize("power_cuts", [0.0, 0.1])
def test_a_walk_is_never_lost_or_duplicated(faults: Faults, power_cuts: float) -> None:
    devices = make_walk_devices(5, 3, power_cuts=power_cuts)
    simulation = Simulation(devices, faults=faults, period=1.0, seed=3)
    simulation.start()
    _advance(simulation, devices, 250.0)
    assert _count_walks(devices)[1] == 5 * VISITS, "every budget is spent, and the walk continues unchanged"
    cuts = [sum(device.store.cuts.values()) for device in devices if isinstance(device.store, FailingStore)]
    assert sum(cuts) >= (10 if power_cuts else 0), "the power fails before and after commits"
    for device in devices:
        spending = device.vault.spending()
        assert spending.charges == spending.releases == VISITS
        assert spending.epsilon <= EPSILON


def test_a_walk_survives_killing_every_device() -> None:
    devices = make_walk_devices(4, 1)
    simulation = Simulation(devices, faults=ROUGH, period=1.0, seed=1)
    simulation.start()
    for end in range(10, 200, 10):
        _advance(simulation, devices, float(end))
        for device in devices:
            if device.core is not None:
                simulation.kill(device.id)
        assert _count_walks(devices)[0] == 1
        for device in devices:
            simulation.restart(device.id)
    assert _count_walks(devices)[1] == 4 * VISITS


@pytest.mark.parametrize("topology", ["ring", "star", "full"])
def test_several_walks_stay_separate(topology: str) -> None:
    devices = make_walk_devices(8, 2, starters=8, topology=topology)
    simulation = Simulation(devices, faults=ROUGH, period=1.0, seed=2)
    simulation.start()
    _advance(simulation, devices, 120.0, walks=8)
    assert _count_walks(devices)[1] == 8 * VISITS


def _run(seed: int) -> list[dict[str, Any]]:
    devices, trace = make_walk_devices(5, 7), Trace()
    simulation = Simulation(devices, faults=ROUGH, period=1.0, seed=seed, event_observer=trace)
    simulation.start()
    simulation.run_until(9.0)
    simulation.kill("device-1")
    simulation.run_until(14.0)
    simulation.restart("device-1")
    simulation.run_until(60.0)
    events: list[dict[str, Any]] = json.loads(json.dumps(trace.document()))["events"]
    return events


def test_the_same_seed_yields_the_same_complete_trace() -> None:
    events = _run(3)
    assert events == _run(3) != _run(4)
    received = [event for event in events if event["event"] == "receive" and not event["duplicate"]]
    sent = {
        (event["device"], event["recipient"], event["sequence"]): event["message"]
        for event in events
        if event["event"] == "send"
    }
    for event in received:
        message = sent[event["sender"], event["device"], event["sequence"]]
        walk = event["state"]["walks"][-1]
        assert (walk["parameters"], walk["age"], walk["visited"]) == (message["parameters"], message["age"], False)
    assert len(received) > 15
