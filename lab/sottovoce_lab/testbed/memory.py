"""A fleet in one process under a virtual clock: thousands of agents, the same cores, learners and vaults."""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sottovoce.agent.memory_store import MemoryStore
from sottovoce.agent.provenance import Unsigned
from sottovoce.algorithms.family import records_of
from sottovoce.errors import NetworkError
from sottovoce.vault import Ledger, SeededNoise, build

from sottovoce_lab.simulate import Device, Simulation, Trace, Witness
from sottovoce_lab.simulate.dishonest import dishonest_learner, dishonest_records, dishonest_vault
from sottovoce_lab.simulate.fate import Fate
from sottovoce_lab.testbed.errors_of_mean import meter_of
from sottovoce_lab.testbed.plan import Plan
from sottovoce_lab.testbed.progress import Moment, Watcher
from sottovoce_lab.testbed.report import AgentReport, Report, Resources, Traffic
from sottovoce_lab.testbed.run_facts import contaminated, curve_point, described, lied, shared_records, unpaid

_BYTES_PER_NUMBER = 8
_MOST_EXTRA = 4
_MOST_POINTS = 200  # of a curve: measuring would take longer than learning


def run(plan: Plan, watcher: Watcher, witness: Witness | None = None) -> Report:
    """Run the plan to its end and measure it; a witness is told of every event."""
    began = time.monotonic()
    options = plan.options
    devices = _devices(plan, witness)
    honest = devices[: len(devices) - plan.dishonest]
    simulation = Simulation(devices, faults=options.faults, period=options.period, seed=options.seed, witness=witness)
    meter = meter_of(plan)
    names = [device.id for device in devices]
    fate = Fate(options.faults, names, options.seed)
    curve = []
    every = -(-options.cycles // _MOST_POINTS)
    simulation.start()
    for cycle in range(1, options.cycles + 1):
        turn = fate.at(cycle)
        for place in turn.killed:
            simulation.kill(names[place])
        for place in turn.restarted:
            simulation.restart(names[place])
        simulation.cut_off = frozenset(names[place] for place in turn.cut_off)
        for note in turn.notes:
            watcher.note(note)
        simulation.run_until(cycle * options.period)
        if (cycle % every and cycle != options.cycles) or not (models := _models(honest)):
            continue  # not now, or all are down
        traffic = _traffic(simulation)
        moment = Moment(
            cycle, options.cycles, time.monotonic() - began, sum(device.core is not None for device in devices),
            meter.quick(models), devices[0].vault.spending().promised_epsilon, traffic.messages, traffic.wire_bytes,
        )  # fmt: skip
        curve.append(curve_point(moment))
        watcher.moment(moment)
    _await_laggards(simulation, devices, options.cycles, options.period)
    return _report(plan, simulation, devices, meter.final(_held(honest)), curve, time.monotonic() - began)


def _devices(plan: Plan, witness: Witness | None) -> list[Device]:
    options = plan.options
    names = [f"agent-{i:05d}" for i in range(options.agents)]
    seeds = np.random.SeedSequence(options.seed).generate_state(options.agents, np.uint64)
    family = plan.family
    devices = []
    for i, name in enumerate(names):
        lie = plan.lie(i)
        vault = build(
            records=dishonest_records(records_of(plan.raw[i], plan.transform, plan.bounds), lie, plan.classes),
            kernel=family.kernel,
            terms=family.terms,
            ledger=Ledger.in_memory(name, options.budget),
            noise=SeededNoise(int(seeds[i])),
            belongs=Unsigned().verify if plan.config.cell is not None else None,
            observer=witness.looking_into(name) if isinstance(witness, Trace) else None,
        )
        learner, _ = (family if i else plan.first).learner(name, Unsigned(), ())
        peers = () if lie == "silent" else tuple(names[j] for j in plan.peers[i])
        told = dishonest_vault(vault, lie, int(seeds[i]))
        learner = dishonest_learner(learner, lie)
        devices.append(Device(name, learner, MemoryStore(learner.fresh()), told, peers, honest=not lie))
    return devices


def _await_laggards(simulation: Simulation, devices: list[Device], cycles: int, period: float) -> None:
    """Go on until every live agent has had its cycles, within a bound; the others go on mixing meanwhile."""
    for _ in range(_MOST_EXTRA * cycles):
        alive = [device for device in devices if device.core]
        if not alive or all(device.cycle >= cycles for device in alive):
            return
        simulation.run_until(simulation.now + period)


def _models(devices: list[Device]) -> list[NDArray[np.float64]]:
    """The models of the agents that are up."""
    return [device.model for device in devices if device.core and device.model is not None]


def _held(devices: list[Device]) -> list[NDArray[np.float64]]:
    if not (models := _models(devices)):
        raise NetworkError("no agent is left that holds a model: let some live, or come back with --fault restart=…")
    return models


def _traffic(simulation: Simulation) -> Traffic:
    """In memory nothing is encoded: bytes are those of the numbers."""
    sent = simulation.traffic
    numbers = sent.numbers * _BYTES_PER_NUMBER
    return Traffic(sent.messages, numbers, numbers)


def _report(
    plan: Plan,
    simulation: Simulation,
    devices: list[Device],
    final: Any,
    curve: list[dict[str, object]],
    wall: float,
) -> Report:
    statement = devices[0].vault.statement
    warnings = shared_records(plan) + contaminated(plan) + unpaid(plan) + lied(plan)
    if statement.epsilon is not None:
        warnings.append("simulated noise: seeded, so the ε printed protects nobody; it is what real noise would cost")
    agents = []
    for device in devices:
        spending = device.vault.spending()
        peers, spent = len(device.peers), spending.promised_epsilon
        agents.append(AgentReport(device.id, device.core is not None, device.cycle, peers, spent, spending.releases))
    return Report(
        run=described(plan, wall),
        statement=statement,
        final=final,
        curve=curve,
        traffic=_traffic(simulation),
        resources=Resources(),
        agents=agents,
        faults=plan.options.fault_words,
        ledgers_agree=True,
        warnings=warnings,
    )
