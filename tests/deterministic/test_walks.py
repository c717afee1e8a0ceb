"""Walks: never lost or doubled, whatever happens to messages and devices."""

import json
import random
from typing import Any

import numpy as np
import pytest
from sottovoce.algorithms.gradient_walk.public.machine import GradientWalk, GradientWalkSchedule, GradientWalkState
from sottovoce.algorithms.gradient_walk.public.messages import GradientWalkMessage
from sottovoce.data import Records
from sottovoce.perturbation import visit_epsilons
from sottovoce.vault import Budget, Ledger, SeededNoise, build
from sottovoce.vault.terms.walks import WalkTerms
from sottovoce_lab.simulator import Device, Faults, Simulation, Trace, out_peers

from tests.deterministic.fleet import FailingStore, PowerCut

FEATURES, VISITS, EPSILON = 3, 5, 8.0
ROUGH = Faults(loss=0.3, duplicate=0.2, delay=0.4, delay_spread=0.4)


def walkers(agents: int, seed: int, *, begin: int = 1, power_cuts: float = 0.0, topology: str = "ring") -> list[Device]:
    """Make devices of three records each, of which the first `begin` devices start a walk."""
    rng, fate = np.random.default_rng(seed), random.Random(seed)
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
        learner = GradientWalk(GradientWalkSchedule("gradient-walk", 1, FEATURES, 1.0, VISITS, begins=i < begin))
        store = FailingStore(names[i], learner.fresh(), fate, power_cuts)
        devices.append(Device(names[i], learner, store, vault, tuple(names[j] for j in peers)))
    return devices


def _account(devices: list[Device]) -> tuple[int, int, int]:
    """Count the walks, their steps and their visits: those that a device holds, and those that are only in transit."""
    walks = steps = visits = 0
    seen = {device.id: device.store.load().seen for device in devices}
    for device in devices:
        saved = device.store.load()
        state: GradientWalkState = device.core.state if device.core else saved.state
        visits += state.visits
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
        found, steps, visits = _account(devices)
        assert found == walks
        assert steps == visits, "a step behind a walk is a visit somewhere, once"


@pytest.mark.parametrize("faults", [Faults(), ROUGH])
@pytest.mark.parametrize("power_cuts", [0.0, 0.1])
def test_one_walk_stays_one_walk(faults: Faults, power_cuts: float) -> None:
    devices = walkers(5, 3, power_cuts=power_cuts)
    simulation = Simulation(devices, faults=faults, period=1.0, seed=3)
    simulation.start()
    _advance(simulation, devices, 250.0)
    assert _account(devices)[1] == 5 * VISITS, "every budget is spent, and the walk goes on untouched"
    cuts = [sum(device.store.cuts.values()) for device in devices if isinstance(device.store, FailingStore)]
    assert sum(cuts) >= (10 if power_cuts else 0), "the power fails before commits, and after them"
    for device in devices:
        spending = device.vault.spending()
        assert spending.charges == spending.releases == VISITS
        assert spending.epsilon <= EPSILON


def test_a_walk_survives_the_kill_of_every_device() -> None:
    devices = walkers(4, 1)
    simulation = Simulation(devices, faults=ROUGH, period=1.0, seed=1)
    simulation.start()
    for end in range(10, 200, 10):
        _advance(simulation, devices, float(end))
        for device in devices:
            if device.core is not None:
                simulation.kill(device.id)
        assert _account(devices)[0] == 1
        for device in devices:
            simulation.restart(device.id)
    assert _account(devices)[1] == 4 * VISITS


@pytest.mark.parametrize("topology", ["ring", "star", "full"])
def test_more_walks_than_one_by_a_mistake_are_kept_apart(topology: str) -> None:
    devices = walkers(8, 2, begin=8, topology=topology)
    simulation = Simulation(devices, faults=ROUGH, period=1.0, seed=2)
    simulation.start()
    _advance(simulation, devices, 120.0, walks=8)
    assert _account(devices)[1] == 8 * VISITS


def _run(seed: int) -> list[dict[str, Any]]:
    devices, trace = walkers(5, 7), Trace()
    simulation = Simulation(devices, faults=ROUGH, period=1.0, seed=seed, event_observer=trace)
    simulation.start()
    simulation.run_until(9.0)
    simulation.kill("device-1")
    simulation.run_until(14.0)
    simulation.restart("device-1")
    simulation.run_until(60.0)
    events: list[dict[str, Any]] = json.loads(json.dumps(trace.document()))["events"]
    return events


def test_same_seed_same_run_and_the_trace_tells_all_of_it() -> None:
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
