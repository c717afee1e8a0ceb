"""Rounds with dead, late or partitioned neighbours: they continue, and a returning device joins the current round."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from sottovoce.algorithms.rounds.public import Rounds, RoundsState
from sottovoce.privacy.api import Answer, Query, Refused
from sottovoce_lab.simulator import Device, Faults, Simulation, Trace, out_peers

from tests.deterministic.fleet import FailingStore, PowerCut
from tests.deterministic.rounds_fleet import fleet

STEPS = 8
ROUGH = Faults(loss=0.2, duplicate=0.2, delay=0.1, delay_spread=0.1)
NAMES = ("pdsl", "dp-cga", "dp-dpsgd", "muffliato", "dp-net-fleet")


@contextmanager
def record_queries(devices: list[Device]) -> Iterator[dict[tuple[str, int], set[bytes]]]:
    """Record the points of all queries, by device and slot."""
    points: dict[tuple[str, int], set[bytes]] = {}
    for device in devices:
        answer = device.vault.answer

        def answer_and_record(query: Query, name: str = device.id, answer: Any = answer) -> Answer:
            points.setdefault((name, query.slot), set()).add(query.point.tobytes())
            result: Answer = answer(query)
            return result

        device.vault.answer = answer_and_record  # type: ignore[method-assign]
    yield points


def get_state(device: Device) -> RoundsState:
    assert device.core is not None
    state: RoundsState = device.core.state
    return state


def questions_per_round(devices: list[Device]) -> int:
    learner = devices[0].learner
    assert isinstance(learner, Rounds)
    return learner.algorithm.questions


def stack_models(devices: list[Device]) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array([get_state(device).work.model for device in devices])


def spread(devices: list[Device]) -> float:
    return float(np.ptp(stack_models(devices), axis=0).max())


@pytest.mark.parametrize("name", NAMES)
def test_a_dead_neighbour_costs_one_deadline_and_its_weight_returns_to_the_device(name: str) -> None:
    devices, trace = fleet(out_peers("ring", 4), name, steps=30), Trace()
    simulation = Simulation(devices, faults=Faults(), period=1.0, seed=1, event_observer=trace)
    simulation.start()
    simulation.run_until(2.4)
    simulation.kill("device-1")
    simulation.run_until(20.0)
    for device in (devices[0], devices[2]):
        mixing = get_state(device).work.mixing
        assert get_state(device).absent_neighbours == {"device-1"}
        assert set(mixing.others) == {"device-3"}
        assert mixing.own == pytest.approx(2 / 3)
    # 20 periods, of which one deadline of 3 is lost to waiting.
    assert all(15 <= get_state(device).work.round <= 20 for device in devices if device.core)
    assert all(get_state(device).missed_phases <= 1 for device in devices if device.core)


@pytest.mark.parametrize("name", NAMES)
def test_a_restarted_device_joins_its_neighbours_round(name: str) -> None:
    devices = fleet(out_peers("ring", 4), name, steps=30)
    simulation = Simulation(devices, faults=Faults(), period=1.0, seed=1)
    simulation.start()
    with record_queries(devices) as points:
        simulation.run_until(3.4)
        simulation.kill("device-1")
        simulation.run_until(12.0)
        before = get_state(devices[0]).work.round
        simulation.restart("device-1")
        simulation.run_until(16.0)
        rounds = [get_state(device).work.round for device in devices]
        assert min(rounds) >= before + 2
        assert max(rounds) - min(rounds) <= 1
        assert all(not get_state(device).absent_neighbours for device in devices)
    assert all(len(found) == 1 for found in points.values()), "each slot has a single point"
    questions = questions_per_round(devices)
    missed_rounds = {slot // questions for slot in range(14 * questions)} - {
        slot // questions for device, slot in points if device == "device-1"
    }
    assert len(missed_rounds) >= 5, "missed rounds are not repeated"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("topology", ["ring", "bipartite", "full"])
def test_rounds_survive_loss_repetition_and_delay(name: str, topology: str) -> None:
    devices = fleet(out_peers(topology, 4), name, steps=STEPS)
    simulation = Simulation(devices, faults=ROUGH, period=1.0, seed=3)
    simulation.start()
    simulation.run_until(90.0)
    assert all(get_state(device).work.round > STEPS + 20 for device in devices)
    assert simulation.refused_messages == 0
    assert spread(devices) < 1e-5, "all devices agree after the last private round"
    questions = questions_per_round(devices)
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


def test_power_cuts_lose_only_rounds() -> None:
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
    assert max(get_state(device).work.round for device in devices) - min(get_state(d).work.round for d in devices) <= 1


def test_a_device_that_lost_its_state_queries_no_slot_twice() -> None:
    devices = fleet(out_peers("full", 3), "pdsl", steps=30, answers=3)
    simulation = Simulation(devices, faults=Faults(), period=1.0, seed=1)
    simulation.start()
    with record_queries(devices) as points:
        simulation.run_until(5.5)
        simulation.kill("device-1")
        slots = {slot for device, slot in points if device == "device-1"}
        assert devices[1].vault.spending().releases == len(slots)
        recovered_state = devices[1].learner.without_state(len(slots))
        assert recovered_state.work.round * 3 > max(slots)
        saved = devices[1].store.load()
        devices[1].store.commit(recovered_state, [], [outgoing.recipient for outgoing in saved.outbox], None)
        simulation.run_until(7.0)
        simulation.restart("device-1")
        simulation.run_until(14.0)
    later = {slot for device, slot in points if device == "device-1"} - slots
    assert len(later) >= 9
    assert min(later) > max(slots)
    assert all(len(found) == 1 for found in points.values())


def test_neighbours_take_turns_if_answers_are_rationed() -> None:
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


def test_a_device_whose_vault_refuses_stays_in_the_rounds() -> None:
    devices = fleet(out_peers("full", 3), "pdsl", steps=30)
    answer = devices[1].vault.answer
    devices[1].vault.answer = lambda query: (  # type: ignore[method-assign]
        answer(query) if query.slot < 27 else Refused(query.id, "budget", "the privacy budget is spent")
    )
    simulation = Simulation(devices, faults=Faults(), period=1.0, seed=1)
    simulation.start()
    simulation.run_until(12.0)
    assert get_state(devices[1]).exhausted
    assert min(get_state(device).work.round for device in devices) >= 9
    assert all(not get_state(device).absent_neighbours and get_state(device).missed_phases == 0 for device in devices)
    assert set(get_state(devices[0]).work.noted["gradients"]) == {"own", "device-2"}
