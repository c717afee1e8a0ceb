"""A run with real processes: watch the fleet, inject faults, measure published models and write a report."""

import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sottovoce.errors import NetworkError, UsageError
from sottovoce.node.control import ask, decode_parameters
from sottovoce.privacy.api import PrivacyStatement, Status
from sottovoce.privacy.vault import Spending

from sottovoce_lab.simulator.fault_schedule import FaultSchedule
from sottovoce_lab.testbed.better_choice import better_choices
from sottovoce_lab.testbed.end_warnings import late_round_warnings, left_behind_warnings, unfinished_warnings
from sottovoce_lab.testbed.fleet import Member, ProcessFleet
from sottovoce_lab.testbed.mean_errors import create_meter
from sottovoce_lab.testbed.plan import Plan
from sottovoce_lab.testbed.progress import Moment, Watcher
from sottovoce_lab.testbed.published_progress import PublishingWatcher
from sottovoce_lab.testbed.report import AgentReport, Report, Resources, Traffic
from sottovoce_lab.testbed.run_facts import (
    curve_point,
    describe_run,
    plan_baselines,
    plan_warnings,
)
from sottovoce_lab.testbed.running_fleet import RunningFleet

_POLL_SECONDS = 0.2
_EXTRA_SECONDS = 60.0
_MAX_SLOWDOWN = 5.0
_STALLED_SECONDS = 5.0


def run(plan: Plan, watcher: Watcher) -> Report:
    """Build the fleet, run it to its end, measure it, and stop it even if an error occurs."""
    directory = plan.options.directory
    if directory is None:
        with tempfile.TemporaryDirectory(prefix="sottovoce-") as temporary:
            publisher = PublishingWatcher(watcher, plan.options, Path(temporary))
            return run_watched(plan, publisher, lambda: ProcessFleet(plan, Path(temporary)))
    if directory.exists() and any(directory.iterdir()):
        raise UsageError(f"testbed.directory: {directory} is not empty; specify a new directory")
    directory.mkdir(parents=True, exist_ok=True)
    publisher = PublishingWatcher(watcher, plan.options, directory)
    return run_watched(plan, publisher, lambda: ProcessFleet(plan, directory.absolute()))


def run_watched(plan: Plan, watcher: Watcher, build: Callable[[], RunningFleet]) -> Report:
    """Build a fleet with the given function, run it and watch it.

    Args:
        plan: the plan that the fleet follows.
        watcher: displays the progress.
        build: builds the fleet; the duration in the report includes this call.
    """
    return _Run(plan, watcher, build).report()


class _Run:
    def __init__(self, plan: Plan, watcher: Watcher, build: Callable[[], RunningFleet]) -> None:
        self._plan = plan
        self._watcher = watcher
        self._started_at = time.monotonic()
        self._fleet = build()
        self._meter = create_meter(plan)
        names = [member.name for member in self._fleet.members]
        self._fault_schedule = FaultSchedule(plan.options.faults, names, plan.options.seed)
        self._cycle = 0
        self._broker_back: float | None = None
        self._cycle_started_at = time.monotonic()
        self._curve: list[dict[str, Any]] = []
        self._warnings: list[str] = []
        self._interrupted: int | None = None

    def report(self) -> Report:
        """Run the fleet, and return the report. Ctrl-C ends the run early, with a report on the results so far."""
        try:
            if self._fleet.broker is not None:
                self._watcher.note(f"MQTT through {self._fleet.broker.description}")
            self._watcher.note(self._fleet.start_message)
            for choice in better_choices(self._plan):
                self._watcher.note(choice)
            if isolated_count := len(self._plan.isolated_agents):
                self._watcher.note(
                    f"{isolated_count} agents have no peers, so this run sets ledger.alone = true for them"
                )
            self._fleet.start(lambda ready, total: self._watcher.advance("agents ready", ready, total))
            try:
                self._watch()
            except KeyboardInterrupt:
                if not self._curve:
                    raise
                self._interrupted = self._cycle
            models = self._final_models()
            final = self._meter.measure_all(list(models.values()))
            self._warnings += left_behind_warnings(self._meter, models, final)
            statuses = [member.last_status for member in self._fleet.members]
            self._warnings += late_round_warnings(statuses)
            if self._interrupted is None:
                for member in self._fleet.running_members():
                    self._warnings += unfinished_warnings(member.last_status, member.name)
        finally:
            killed_agents = self._fleet.stop()
        if killed_agents:
            self._warnings.append(f"these agents did not stop on request and were killed: {', '.join(killed_agents)}")
        ledgers = {member.name: self._fleet.spending(member) for member in self._fleet.members}
        return Report(
            run=describe_run(self._plan, time.monotonic() - self._started_at),
            statement=self._statement(),
            final=final,
            curve=self._curve,
            traffic=self._traffic(),
            resources=self._resources(),
            agents=[self._agent_report(member, ledgers[member.name]) for member in self._fleet.members],
            faults=self._plan.options.fault_specs,
            ledgers_agree=self._ledgers_agree(ledgers),
            baselines=partial(plan_baselines, self._plan),
            warnings=[*plan_warnings(self._plan), *self._warnings],
            interrupted=self._interrupted,
        )

    def _watch(self) -> None:
        options = self._plan.options
        deadline = time.monotonic() + _EXTRA_SECONDS + options.cycles * (options.period + 0.1) * _MAX_SLOWDOWN
        last_cycle = -1
        while True:
            self._fleet.poll()
            self._advance()
            self._break_broker(self._cycle)
            if self._cycle > last_cycle:
                last_cycle = self._cycle
                self._apply_faults(min(last_cycle, options.cycles))
                self._record_moment(last_cycle)
            if not (laggards := self._laggards()) and not self._waits_for_restart():
                return
            if time.monotonic() > deadline:
                raise NetworkError(f"{', '.join(laggards)} did not finish in time; see `agent status --why` for each")
            time.sleep(max(_POLL_SECONDS / 4, min(_POLL_SECONDS, options.period)))

    def _laggards(self) -> list[str]:
        """Return the names of running agents with cycles left. Agents that are done keep mixing until these finish."""
        cycles = self._plan.options.cycles
        return [
            member.name
            for member in self._fleet.running_members()
            if not member.last_status or member.last_status["cycle"] < cycles
        ]

    def _advance(self) -> None:
        """Advance the fleet's cycle to the median of its agents' cycles, but never move it back.

        If no agent can continue, the fleet's cycle follows the clock, because a running agent may be waiting for an
        absent one, such as a witness for its ledger head.
        """
        cycles = [member.last_status["cycle"] for member in self._fleet.running_members() if member.last_status]
        period = self._plan.options.period
        timeout = max(_STALLED_SECONDS, _MAX_SLOWDOWN * period) if self._fleet.running_members() else period
        is_late = time.monotonic() - self._cycle_started_at >= timeout
        has_stalled = is_late and self._fault_schedule.will_restart_after(self._cycle)
        cycle = max(self._cycle + has_stalled, int(statistics.median_low(cycles)) if cycles else 0)
        if cycle > self._cycle:
            self._cycle, self._cycle_started_at = cycle, time.monotonic()

    def _waits_for_restart(self) -> bool:
        """Return whether all agents are down and some of them will restart."""
        cycle, cycles = self._cycle, self._plan.options.cycles
        return not self._fleet.running_members() and cycle < cycles and self._fault_schedule.will_restart_after(cycle)

    def _break_broker(self, cycle: int) -> None:
        """Kill the broker at the cycle that the fault specifies, and restart it at the end of the outage."""
        fault, broker = self._plan.options.faults.broker_kill, self._fleet.broker
        if fault is None or broker is None:
            return
        if self._broker_back is None and cycle >= fault.cycle:
            broker.kill()
            self._broker_back = time.monotonic() + fault.seconds
            self._watcher.note(f"cycle {cycle}: killed the broker for {fault.seconds:g} s")
        elif self._broker_back is not None and time.monotonic() >= self._broker_back:
            broker.start()
            self._broker_back = float("inf")
            self._watcher.note(f"cycle {cycle}: restarted the broker")

    def _apply_faults(self, cycle: int) -> None:
        cycle_faults = self._fault_schedule.advance_to(cycle)
        for index in cycle_faults.agents_to_kill:
            self._fleet.kill(index)
        self._fleet.cut_off(cycle_faults.cut_off)
        for index in cycle_faults.agents_to_restart:
            self._fleet.launch(index)
        for note in cycle_faults.notes:
            self._watcher.note(note)

    def _models(self) -> dict[str, NDArray[np.float64]]:
        """Return the models published by running agents, by agent name."""
        models = {}
        for member in self._fleet.running_members():
            try:
                model = decode_parameters(ask(member.state, "model"))
            except NetworkError:
                continue
            if model is not None:
                models[member.name] = model
        return models

    def _final_models(self) -> dict[str, NDArray[np.float64]]:
        """Return the published models at the end of the run.

        Raises:
            NetworkError: if no running agent has a model.
        """
        if not (models := self._models()):
            raise NetworkError("no surviving agent has a model: keep some agents alive, or add --fault restart=…")
        return models

    def _record_moment(self, cycle: int) -> None:
        if not (models := self._models()):
            return  # no agent has published a model yet, or all were killed
        traffic = self._traffic()
        spent = [
            member.last_status["privacy"]["spent_epsilon"]
            for member in self._fleet.running_members()
            if member.last_status
        ]
        finite = [epsilon for epsilon in spent if epsilon is not None]
        moment = Moment(
            cycle=cycle,
            cycles=self._plan.options.cycles,
            elapsed_s=time.monotonic() - self._started_at,
            alive=len(self._fleet.running_members()),
            measures=self._meter.measure_sample(list(models.values())),
            epsilon_spent=max(finite) if finite else None,
            messages=traffic.messages,
            wire_bytes=traffic.wire_bytes,
        )
        self._curve.append(curve_point(moment))
        self._watcher.show_moment(moment)

    def _statement(self) -> PrivacyStatement:
        privacy = next(member.last_status["privacy"] for member in self._fleet.members if member.last_status)
        fields = {name: privacy[name] for name in PrivacyStatement.__slots__ if name in privacy}
        return PrivacyStatement(**{**fields, "status": Status(fields["status"])}).without_proof(self._plan.unproved)

    def _traffic(self) -> Traffic:
        statuses = [
            status
            for member in self._fleet.members
            for status in (*member.previous_statuses, member.last_status)
            if status
        ]
        traffic = [status["traffic"] for status in statuses]
        return Traffic(
            messages=sum(counts["messages"] + counts["retries"] for counts in traffic),
            payload_bytes=sum(counts["payload_bytes"] for counts in traffic),
            wire_bytes=sum(counts["wire_bytes"] for counts in traffic),
        )

    def _resources(self) -> Resources:
        resources = [member.last_status["resources"] for member in self._fleet.members if member.last_status]
        ready = [member.ready_s for member in self._fleet.members if member.ready_s is not None]
        memory = [usage["rss_mib"] for usage in resources]
        return Resources(
            ready_s_median=round(statistics.median(ready), 3),
            rss_mib_median=round(statistics.median(memory), 1),
            rss_mib_max=round(max(memory), 1),
            cpu_s_per_agent=round(statistics.mean(usage["cpu_s"] for usage in resources), 3),
        )

    def _ledgers_agree(self, ledgers: dict[str, Spending]) -> bool:
        """Return whether the spending that agents reported when they stopped matches their ledgers.

        One release may have been in progress when an agent stopped. An agent that had to be killed did not report
        anything, so its ledger must contain at least the spending in its last status.
        """
        agree = True
        for member in self._fleet.running_members():
            status_charges = member.last_status["privacy"]["charges"] if member.last_status else 0
            final_charges = self._fleet.charges_when_stopped(member)
            reported = status_charges if final_charges is None else final_charges
            recorded = ledgers[member.name].charges
            if recorded < reported or (final_charges is not None and recorded > reported + 1):
                self._warnings.append(
                    f"{member.name} reported {reported} charged releases, but its ledger has {recorded}"
                )
                agree = False
        return agree

    @staticmethod
    def _agent_report(member: Member, spending: Spending) -> AgentReport:
        """Return an agent's result, with the spending from its ledger instead of its own report."""
        return AgentReport(
            id=member.identity.node_id,
            alive=not member.is_killed,
            cycles=member.last_status["cycle"] if member.last_status else 0,
            peers=len(member.last_status["peers"]) if member.last_status else 0,
            epsilon_spent=spending.promised_epsilon,
            releases=spending.releases,
        )
