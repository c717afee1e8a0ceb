"""Trace of a run: complete enough to follow the run step by step."""

import json

from sottovoce_lab.simulator import Faults, Simulation, Trace

from tests.deterministic.fleet import fleet


def run_traced(faults: Faults) -> tuple[Trace, Simulation]:
    """Run a fleet of three with a kill and a restart, and return its trace."""
    trace = Trace()
    devices = fleet(3, "ring", seed=1, steps=4)
    simulation = Simulation(devices.devices, faults=faults, period=1.0, seed=1, event_observer=trace)
    simulation.start()
    simulation.run_until(3.0)
    simulation.kill("device-1")
    simulation.run_until(6.0)
    simulation.restart("device-1")
    simulation.run_until(10.0)
    return trace, simulation


def test_each_received_share_was_sent_and_changes_the_state_by_its_weight() -> None:
    trace, _ = run_traced(Faults(loss=0.2, duplicate=0.2))
    events = json.loads(json.dumps(trace.document()))["events"]
    sent: dict[tuple[str, str, int], dict[str, int]] = {}
    weights: dict[str, int] = {}
    applied = 0
    for event in events:
        state = event["state"]
        if event["event"] == "send":
            sent[event["device"], event["recipient"], event["sequence"]] = event["message"]
        elif event["event"] == "receive":
            share = sent[event["sender"], event["device"], event["sequence"]]
            weight_gain = state["weight"] - weights[event["device"]]
            assert weight_gain == (0 if event["duplicate"] else share["weight"])
            applied += not event["duplicate"]
        if state is not None:
            weights[event["device"]] = state["weight"]
    assert applied > 10


def test_the_trace_contains_kills_restarts_and_answers() -> None:
    trace, simulation = run_traced(Faults())
    events = trace.document()["events"]
    assert [event["event"] for event in events if event["device"] == "device-1" and event["state"] is None] == ["kill"]
    assert sum(event["event"] == "start" for event in events) == 4
    answers = [event for event in events if event["event"] == "answer"]
    assert all(isinstance(value, int) for event in answers for value in event["value"])
    last = next(event["state"] for event in reversed(events) if event["device"] == "device-0")
    core = simulation.devices["device-0"].core
    assert core is not None
    assert last["numerator"] == core.state.numerator.tolist()
