"""Rounds with dead, late or partitioned neighbours: they continue, and a returning device joins the current round."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from sottovoce.algorithms.rounds.public import Rounds, RoundsState
from sottovoce.door import Answer, Query, Refused
from sottovoce_lab.simulator import Device, Faults, Simulation, Trace, out_peers

from tests.deterministic.fleet import FailingStore, PowerCut
from tests.deterministic.rounds_fleet import fleet

STEPS = 8
ROUGH = Faults(loss=0.2, duplicate=0.2, delay=0.1, delay_spread=0.1)
NAMES = ("pdsl", "dp-cga", "dp-dpsgd", "muffliato", "dp-net-fleet")


@contextmanager
def asked(devices: list[Device]) -> Iterator[dict[tuple[str, int], set[bytes]]]:
    """The points at which each device's vault has been asked for each slot."""
    points: dict[tuple[str, int], set[bytes]] = {}
    for device in devices:
        answer = device.vault.answer

        def watched(query: Query, name: str = device.id, answer: Any = answer) -> Answer:
            points.setdefault((name, query.slot), set()).add(query.point.tobytes())
            given: Answer = answer(query)
            return given

        device.vault.answer = watched  # type: ignore[method-assign]
    yield points


def state(device: Device) -> RoundsState:
    assert device.core is not None
    found: RoundsState = device.core.state
    return found


def questions_of(devices: list[Device]) -> int:
    learner = devices[0].learner
    assert isinstance(learner, Rounds)
    return learner.algorithm.questions


def models(devices: list[Device]) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array([state(device).work.model for device in devices])


def spread(devices: list[Device]) -> float:
    return float(np.ptp(models(devices), axis=0).max())


@pytest.mark.parametrize("name", NAMES)
def test_a_dead_neighbour_costs_one_deadline_and_its_weight_is_ones_own(name: str) -> None:
    devices, trace = fleet(out_peers("ring", 4), name, steps=30), Trace()
    simulation = Simulation(devices, faults=Faults(), period=1.0, seed=1, event_observer=trace)
    simulation.start()
    simulation.run_until(2.4)
    simulation.kill("device-1")
    simulation.run_until(20.0)
    for device in (devices[0], devices[2]):
        mixing = state(device).work.mixing
        assert state(device).absent_neighbours == {"device-1"}
        assert set(mixing.others) == {"device-3"}
        assert mixing.own == pytest.approx(2 / 3)
    # 20 periods, of which one deadline of 3 is lost to waiting.
    assert all(15 <= state(device).work.round <= 20 for device in devices if device.core)
    assert all(state(device).missed_phases <= 1 for device in devices if device.core)


@pytest.mark.parametrize("name", NAMES)
def test_a_restarted_device_joins_the_round_of_its_neighbours(name: str) -> None:
    devices = fleet(out_peers("ring", 4), name, steps=30)
    simulation = Simulation(devices, faults=Faults(), period=1.0, seed=1)
    simulation.start()
    with asked(devices) as points:
        simulation.run_until(3.4)
        simulation.kill("device-1")
        simulation.run_until(12.0)
        before = state(devices[0]).work.round
        simulation.restart("device-1")
        simulation.run_until(16.0)
        rounds = [state(device).work.round for device in devices]
        assert min(rounds) >= before + 2
        assert max(rounds) - min(rounds) <= 1
        assert all(not state(device).absent_neighbours for device in devices)
    assert all(len(found) == 1 for found in points.values()), "a slot has one point"
    questions = questions_of(devices)
    silent = {slot // questions for slot in range(14 * questions)} - {
        slot // questions for device, slot in points if device == "device-1"
    }
    assert len(silent) >= 5, "rounds that it was away for are not made up for"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("topology", ["ring", "bipartite", "full"])
def test_rounds_survive_loss_repetition_and_delay(name: str, topology: str) -> None:
    devices = fleet(out_peers(topology, 4), name, steps=STEPS)
    simulation = Simulation(devices, faults=ROUGH, period=1.0, seed=3)
    simulation.start()
    simulation.run_until(90.0)
    assert all(state(device).work.round > STEPS + 20 for device in devices)
    assert simulation.refused_messages == 0
    assert spread(devices) < 1e-5, "after the last private round all agree"
    questions = questions_of(devices)
    assert all(0 < device.vault.spending().releases <= STEPS * questions for device in devices)


def test_a_late_device_is_waited_for_and_lateness_is_reported() -> None:
    devices = fleet(out_peers("full", 3), "dp-dpsgd", steps=STEPS)
    simulation = Simulation(devices, faults=Faults(delay=1.2), period=1.0, seed=1)
    simulation.start()
    simulation.run_until(30.0)
    for device in devices:
        assert device.core is not None
        details = device.core.progress.details
        assert details["missed_phases"] == 0, "a message takes 1.2 periods, the deadline is 3"
        assert float(details["late_s"]) > 0
        assert set(details) == {"late_s", "drift_rounds", "missed_phases", "absent_neighbours"}


def test_power_cuts_lose_rounds_and_nothing_else() -> None:
    devices = fleet(out_peers("ring", 4), "pdsl", steps=STEPS, power_cuts=0.02)
    simulation = Simulation(devices, faults=ROUGH, period=1.0, seed=5)
    simulation.start()
    down: dict[str, float] = {}
    while simulation.now < 120.0:
        for node in [node for node, back in down.items() if back <= simulation.now]:
            del down[node]
            simulation.restart(node)
        try:
            simulation.step()
        except PowerCut as cut:
            simulation.kill(cut.node)
            down[cut.node] = simulation.now + 2.5
        if simulation.now > 90.0:
            for device in devices:
                assert isinstance(device.store, FailingStore)
                device.store._probability = 0.0
    cuts = sum(sum(device.store.cuts.values()) for device in devices if isinstance(device.store, FailingStore))
    assert cuts >= 10
    assert spread(devices) < 1e-5
    assert max(state(device).work.round for device in devices) - min(state(d).work.round for d in devices) <= 1


def test_a_device_without_its_state_asks_no_slot_again() -> None:
    devices = fleet(out_peers("full", 3), "pdsl", steps=30, answers=3)
    simulation = Simulation(devices, faults=Faults(), period=1.0, seed=1)
    simulation.start()
    with asked(devices) as points:
        simulation.run_until(5.5)
        simulation.kill("device-1")
        slots = {slot for device, slot in points if device == "device-1"}
        assert devices[1].vault.spending().releases == len(slots)
        lost = devices[1].learner.without_state(len(slots))
        assert lost.work.round * 3 > max(slots)
        kept = devices[1].store.load()
        devices[1].store.commit(lost, [], [outgoing.recipient for outgoing in kept.outbox], None)
        simulation.run_until(7.0)
        simulation.restart("device-1")
        simulation.run_until(14.0)
    later = {slot for device, slot in points if device == "device-1"} - slots
    assert len(later) >= 9
    assert min(later) > max(slots)
    assert all(len(found) == 1 for found in points.values())


def test_more_neighbours_than_answers_take_turns() -> None:
    devices = fleet(out_peers("full", 5), "pdsl", steps=STEPS, answers=3)
    trace = Trace()
    simulation = Simulation(devices, faults=Faults(), period=1.0, seed=1, event_observer=trace)
    simulation.start()
    simulation.run_until(20.0)
    assert all(device.vault.spending().releases == STEPS * 3 for device in devices)
    answered: dict[str, int] = {}
    for event in json.loads(json.dumps(trace.document()))["events"]:
        if event["event"] == "send" and event["device"] == "device-0" and event["message"]["phase"] == 1:
            answered.setdefault(event["recipient"], 0)
            answered[event["recipient"]] += bool(event["message"]["vectors"])
    assert answered == dict.fromkeys((f"device-{i}" for i in range(1, 5)), STEPS * 2 // 4)


def test_a_vault_that_refuses_leaves_its_device_in_the_rounds() -> None:
    devices = fleet(out_peers("full", 3), "pdsl", steps=30)
    answer = devices[1].vault.answer
    devices[1].vault.answer = lambda query: (  # type: ignore[method-assign]
        answer(query) if query.slot < 27 else Refused(query.id, "budget", "the privacy budget is spent")
    )
    simulation = Simulation(devices, faults=Faults(), period=1.0, seed=1)
    simulation.start()
    simulation.run_until(12.0)
    assert state(devices[1]).exhausted
    assert min(state(device).work.round for device in devices) >= 9
    assert all(not state(device).absent_neighbours and state(device).missed_phases == 0 for device in devices)
    assert set(state(devices[0]).work.noted["gradients"]) == {"own", "device-2"}
