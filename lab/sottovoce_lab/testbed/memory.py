"""A fleet in one process on a virtual clock, with up to thousands of agents with real cores, learners and vaults."""

import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sottovoce.data import prepare_records
from sottovoce.errors import NetworkError
from sottovoce.learning.learners import Learner
from sottovoce.plugins import plugin_errors
from sottovoce.privacy.terms import build
from sottovoce.privacy.vault import Ledger, SeededNoise

from sottovoce_lab.simulator import Device, EventObserver, Simulation, Trace
from sottovoce_lab.simulator.dishonest import dishonest_kernel, dishonest_learner, dishonest_records, dishonest_vault
from sottovoce_lab.simulator.disk import Disk, StoreOnDisk, on_disk
from sottovoce_lab.simulator.enrolment import Member, enrol_agents
from sottovoce_lab.simulator.fault_schedule import CycleFaults, FaultSchedule
from sottovoce_lab.testbed.better_choice import better_choices
from sottovoce_lab.testbed.end_warnings import late_round_warnings, left_behind_warnings
from sottovoce_lab.testbed.mean_errors import AnyMeter, create_meter
from sottovoce_lab.testbed.memory_store import MemoryStore
from sottovoce_lab.testbed.plan import Plan
from sottovoce_lab.testbed.progress import Moment, Watcher
from sottovoce_lab.testbed.report import AgentReport, Report, Resources, Traffic
from sottovoce_lab.testbed.run_facts import (
    SIMULATED,
    curve_point,
    describe_run,
    plan_baselines,
    plan_warnings,
)
from sottovoce_lab.testbed.unsigned import UnsignedProvenance

_BYTES_PER_NUMBER = 8
_MAX_EXTRA_FACTOR = 4
_AGENTS_PER_UPDATE = 50  # how many agents to build between two updates of the progress bar
MAX_POINTS = 200
"""Maximum number of points on a curve; beyond it, measuring would take longer than learning."""


class AgentFaults:
    """Agent faults that `--fault` cannot express. This base class adds none; subclasses add some.

    Attributes:
        needs_identities: whether agents have keys and certificates even if the faults do not need them.
        later_plan: the plan that configures an honest agent when it restarts; None if the plan does not change.
    """

    needs_identities: bool = False
    later_plan: Plan | None = None

    def alter(self, index: int, device: Device) -> None:
        """Modify an agent that has just been built."""


NO_AGENT_FAULTS = AgentFaults()


class Clock:
    """The clock of a simulation that may not have been built yet.

    Args:
        period: the duration of a cycle, in seconds.

    Attributes:
        simulation: the simulation; None until it is built.
    """

    def __init__(self, period: float) -> None:
        self.simulation: Simulation | None = None
        self._period = period

    def days(self) -> float:
        """Return the number of cycles since the start, each of which counts as one day on wall clocks."""
        return 0.0 if self.simulation is None else self.simulation.now / self._period


@plugin_errors()  # here, because a sweep's workers cannot pass on a traceback
def run(
    plan: Plan,
    watcher: Watcher,
    event_observer: EventObserver | None = None,
    meter: AnyMeter | None = None,
    points: int = MAX_POINTS,
    agent_faults: AgentFaults = NO_AGENT_FAULTS,
) -> Report:
    """Run the plan to its end, and measure it. Ctrl-C ends the run early, with a report on the results so far.

    Args:
        plan: the fleet's plan.
        watcher: displays the progress.
        event_observer: receives every event; None for no observer.
        meter: measures the models; None for the plan's default meter.
        points: the maximum number of points on the curve; measuring each point takes time.
        agent_faults: agent faults that `--fault` cannot express.
    """
    started_at = time.monotonic()
    options = plan.options
    for choice in better_choices(plan):
        watcher.note(choice)
    clock = Clock(options.period)
    members = _members(plan, agent_faults, clock)
    devices = _devices(plan, members, event_observer, watcher, agent_faults)
    honest = [device for device in devices if device.is_honest]
    simulation = Simulation(
        devices, faults=options.faults, period=options.period, seed=options.seed, event_observer=event_observer
    )
    clock.simulation = simulation
    meter = meter or create_meter(plan)
    curve: list[dict[str, object]] = []
    interrupted_at = None
    try:
        for moment in _moments(plan, simulation, members, honest, meter, watcher, started_at, points, agent_faults):
            curve.append(curve_point(moment))
            watcher.show_moment(moment)
        _await_laggards(simulation, devices, options.cycles, options.period)
    except KeyboardInterrupt:
        if not curve:
            raise
        interrupted_at = round(simulation.now / options.period)
    models = _surviving_models(honest)
    final = meter.measure_all(list(models.values()))
    report = _report(plan, simulation, devices, final, curve, time.monotonic() - started_at)
    report.interrupted = interrupted_at
    report.warnings += left_behind_warnings(meter, models, final)
    progresses = [device.core.progress for device in devices if device.core is not None]
    statuses = [{**progress.details, "steps_done": progress.steps_done} for progress in progresses]
    report.warnings += late_round_warnings(statuses)
    return report


def _moments(
    plan: Plan,
    simulation: Simulation,
    members: Sequence[Member],
    honest: list[Device],
    meter: AnyMeter,
    watcher: Watcher,
    started_at: float,
    points: int,
    agent_faults: AgentFaults,
) -> Iterator[Moment]:
    """Run the simulation cycle by cycle, and yield the fleet's state at regular intervals, up to `points` times."""
    options = plan.options
    names = list(simulation.devices)
    schedule = FaultSchedule(options.faults, names, options.seed)
    interval = -(-options.cycles // points)
    simulation.start()
    for cycle in range(1, options.cycles + 1):
        cycle_faults = schedule.advance_to(cycle)
        for index in cycle_faults.agents_to_kill:
            simulation.kill(names[index])
        for index in cycle_faults.agents_to_restart:
            _reconfigure(agent_faults.later_plan, index, simulation.devices[names[index]], members)
            simulation.restart(names[index])
        _apply_faults(cycle_faults, simulation, names, members)
        simulation.cut_off = frozenset(names[index] for index in cycle_faults.cut_off)
        for note in cycle_faults.notes:
            watcher.note(note)
        simulation.run_until(cycle * options.period)
        if (cycle % interval and cycle != options.cycles) or not (models := _models(honest)):
            continue  # no point is due in this cycle, or no running agent has a model
        traffic = _traffic(simulation)
        yield Moment(
            cycle=cycle,
            cycles=options.cycles,
            elapsed_s=time.monotonic() - started_at,
            alive=sum(device.core is not None for device in simulation.devices.values()),
            measures=meter.measure_sample(list(models.values())),
            epsilon_spent=simulation.devices[names[0]].vault.spending().promised_epsilon,
            messages=traffic.messages,
            wire_bytes=traffic.wire_bytes,
        )


def _learner(plan: Plan, index: int, name: str, members: Sequence[Member]) -> Learner[Any]:
    provenance = members[index].provenance if members else UnsignedProvenance()
    return (plan.family if index else plan.first_family).learner(name, provenance, ())[0]


def _reconfigure(later: Plan | None, index: int, device: Device, members: Sequence[Member]) -> None:
    """Apply the later plan, if any, to an honest agent that is about to restart."""
    if later is not None and device.is_honest:
        device.learner = _learner(later, index, device.id, members)


def _apply_faults(
    cycle_faults: CycleFaults, simulation: Simulation, names: list[str], members: Sequence[Member]
) -> None:
    """Apply a cycle's fault events to disks, clocks, certificates and memberships."""
    for index, name in enumerate(names):
        device = simulation.devices[name]
        if device.disk is not None and device.disk.is_full != (index in cycle_faults.full_disks):
            device.disk.is_full = index in cycle_faults.full_disks
        if members:
            members[index].clock_error_days = cycle_faults.clock_errors.get(index, 0.0)
            if device.core is not None and not device.is_revoked:
                members[index].renew()
    if cycle_faults.agents_to_revoke:
        simulation.revoke([names[index] for index in cycle_faults.agents_to_revoke])


def _members(plan: Plan, agent_faults: AgentFaults, clock: Clock) -> Sequence[Member]:
    """Return the agents' keys and certificates if any faults need them; if not, no agent signs."""
    options, faults = plan.options, plan.options.faults
    if not (agent_faults.needs_identities or faults.revoke or faults.renew or faults.clock):
        return ()
    return enrol_agents(options.agents, options.seed, faults.renew, clock.days)


def _devices(
    plan: Plan,
    members: Sequence[Member],
    event_observer: EventObserver | None,
    watcher: Watcher,
    agent_faults: AgentFaults,
) -> list[Device]:
    options = plan.options
    names = [member.node for member in members] or [f"agent-{i:05d}" for i in range(options.agents)]
    seeds = np.random.SeedSequence(options.seed).generate_state(options.agents, np.uint64)
    family = plan.family
    devices = []
    for i, name in enumerate(names):
        if i % _AGENTS_PER_UPDATE == 0:
            watcher.advance("agents built", i, len(names))
        lie, disk = plan.lie(i), Disk() if options.faults.disk_full else None
        records = dishonest_records(prepare_records(plan.raw[i], plan.transform, plan.bounds), lie, plan.classes)
        in_secure_sums = plan.config.cell is not None and lie.endswith("-answers")
        vault = build(
            records=records,
            kernel=dishonest_kernel(family.kernel, lie, records, plan.classes) if in_secure_sums else family.kernel,
            terms=family.terms,
            ledger=Ledger.in_memory(name, options.budget, None if disk is None else disk.connection),
            noise=SeededNoise(int(seeds[i])),
            verify_signature=(members[i].witness if members else UnsignedProvenance()).verify
            if plan.config.cell is not None
            else None,
            observer=event_observer.vault_observer(name) if isinstance(event_observer, Trace) else None,
        )
        learner = _learner(plan, i, name, members)
        peers = () if lie == "silent" else tuple(names[j] for j in plan.peers[i])
        own_vault = vault if disk is None else on_disk(vault, name)
        device_vault = dishonest_vault(own_vault, lie, int(seeds[i]), family.kernel, records, plan.classes)
        learner = dishonest_learner(learner, lie, family.kernel, records, plan.classes)
        store = MemoryStore(learner.initial_state())
        device = Device(
            id=name,
            learner=learner,
            store=store if disk is None else StoreOnDisk(store, disk, name),
            vault=device_vault,
            peers=peers,
            is_honest=not lie,
            revoked_ids=members[i].revoked_ids if members else set(),
            disk=disk,
        )
        agent_faults.alter(i, device)
        devices.append(device)
    return devices


def _await_laggards(simulation: Simulation, devices: list[Device], cycles: int, period: float) -> None:
    """Run until every live agent has completed its cycles or a time limit is reached; finished agents keep mixing."""
    for _ in range(_MAX_EXTRA_FACTOR * cycles):
        alive = [device for device in devices if device.core]
        if not alive or all(device.cycle >= cycles for device in alive):
            return
        simulation.run_until(simulation.now + period)


def _models(devices: list[Device]) -> dict[str, NDArray[np.float64]]:
    """Return the running agents' models, by agent name."""
    return {device.id: device.model for device in devices if device.core and device.model is not None}


def _surviving_models(devices: list[Device]) -> dict[str, NDArray[np.float64]]:
    if not (models := _models(devices)):
        raise NetworkError("no surviving agent has a model: keep some agents alive, or add --fault restart=…")
    return models


def _traffic(simulation: Simulation) -> Traffic:
    """Return the traffic in memory; messages are not encoded there, so only the bytes of their numbers count."""
    counts = simulation.traffic
    numbers = counts.numbers * _BYTES_PER_NUMBER
    return Traffic(counts.messages, numbers, numbers)


def _report(
    plan: Plan,
    simulation: Simulation,
    devices: list[Device],
    final: Any,
    curve: list[dict[str, object]],
    wall: float,
) -> Report:
    statement = devices[0].vault.statement.without_proof(plan.unproved)
    warnings = plan_warnings(plan)
    if statement.epsilon is not None:
        warnings.append(SIMULATED)
    agents = []
    for device in devices:
        spending = device.vault.spending()
        peers, spent = len(device.peers), spending.promised_epsilon
        agents.append(AgentReport(device.id, device.core is not None, device.cycle, peers, spent, spending.releases))
    return Report(
        run=describe_run(plan, wall),
        statement=statement,
        final=final,
        curve=curve,
        traffic=_traffic(simulation),
        resources=Resources(),
        agents=agents,
        faults=plan.options.fault_specs,
        ledgers_agree=True,
        baselines=partial(plan_baselines, plan),
        warnings=warnings,
    )
