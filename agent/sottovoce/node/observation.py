"""Metrics and health checks of an agent, collected on request; see sottovoce.ops.metrics for their names.

This module is imported only if they are configured.

Processor time and memory use depend on the records in a process, and sizes of files and free space on those on a disk.
The latter are published only on this machine, whose users can see them anyway; so are the former, if the vault runs in
this process. The vault's response time is never reported. Metrics are collected at most once a second, however often
they are requested.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Protocol

import sottovoce
from sottovoce.errors import ConfigError
from sottovoce.fleet import Trust
from sottovoce.fleet.renewal import renewal_time
from sottovoce.net.page_server import PageServer
from sottovoce.node.core import Action
from sottovoce.node.faults import MANUAL_KINDS, TRANSIENT_KINDS, Fault
from sottovoce.node.local_vault import LEDGER
from sottovoce.node.status import StatusSource
from sottovoce.node.waits import Waits, resting_until
from sottovoce.ops.health import health
from sottovoce.ops.machine import ProcessMeasurements, measure_machine
from sottovoce.ops.page import Page

Values = dict[str, float | Mapping[str, float] | None]

PHASES = ("learning", "mixing")
WAITS = (
    "broker", "day", "disk-wear", "fleet-task", "leave", "ledger", "membership", "peer", "renewal", "revocations",
    "results", "roll-call", "source", "task", "timer", "vault-process", "wear",
)  # fmt: skip
"""Kinds of waits that are published. Waits for the vault are left out, because their time depends on the records."""

REASONS = (
    "cell", "certificate", "entries", "fleet", "head", "incarnation", "incomplete", "learner", "leaving", "ledger",
    "malformed", "membership", "neighbour", "phase", "provenance", "quota", "range", "rate", "recipient", "record",
    "revocations", "revoked", "sender", "shape", "signature", "size", "task", "type", "unsolicited", "version", "walks",
)  # fmt: skip
"""Reasons why an agent may refuse a message."""

RECORD_REASONS = ("certificate", "fleet", "record", "revoked", "sender", "signature")
"""Reasons why an agent may refuse another device's record when a peer forwards it."""

CAUSES = ("busy", "other", "refused", "rejected", "timeout", "tls", "unreachable")
"""Causes of a failed attempt to reach a peer; see sottovoce.net.transports.DeliveryFailed."""

OUTCOMES = ("answered", "failed", "received", "sent")
_UNPUBLISHED = "vault"
_MAX_RESULT_VALUES = 96  # a day in quarters of an hour; longer vectors are in the result file
_OVERDUE_SECONDS = 5.0  # grace period after a deadline, because a busy machine may notice it late
_CORE_SECONDS = 5.0


def transport_problems(agent: StatusSource) -> dict[str, str]:
    """Return, for each transport, why no device can reach this one through it; an empty string if devices can."""
    return dict(zip(agent.config.transport.use, agent.transport.listener().troubles, strict=True))


def agent_values(agent: StatusSource, measurements: ProcessMeasurements | None) -> Values:
    """Return the current metrics of an agent; see sottovoce.ops.metrics.

    Args:
        agent: the agent.
        measurements: measurements of its process; None if they may not be published. The metrics of the disk are
            published only on an address of this machine, whatever the measurements.
    """
    return {
        **fault_values(None),
        **_learning_values(agent),
        **privacy_values(agent),
        **_traffic_values(agent),
        **_peer_values(agent),
        **wait_values(agent.waits),
        **result_values(agent),
        **({} if measurements is None else _process_values(measurements)),
        **(_disk_values(agent, measurements) if agent.config.observe.is_local and measurements is not None else {}),
    }


def fault_values(fault: Fault | None) -> Values:
    """Return the metrics that are known even if the agent is not running."""
    kinds = dict.fromkeys((*TRANSIENT_KINDS, *MANUAL_KINDS), 0)
    return {
        "sottovoce_build_info": {sottovoce.__version__: 1},
        "sottovoce_fault": kinds if fault is None else {**kinds, fault.kind: 1},
        "sottovoce_needs_a_person": fault is not None and fault.needs_a_person,
    }


def _learning_values(agent: StatusSource) -> Values:
    progress, settings = agent.core.progress, agent.config.learner
    return {
        "sottovoce_learner_info": {settings.name: 1},
        "sottovoce_learner_phase": {phase: progress.phase == phase for phase in PHASES},
        "sottovoce_learner_period_seconds": settings.period,
        "sottovoce_learner_cycles_total": agent.cycle,
        "sottovoce_learner_steps_done": progress.steps_done,
        "sottovoce_learner_steps_planned": progress.steps,
        "sottovoce_event_loop_tasks": len(asyncio.all_tasks()),
    }


def privacy_values(agent: StatusSource) -> Values:
    """Return the metrics of the guarantee and the ledger; ε spent and its limit are both those of the current task."""
    statement, spending, detector = agent.vault.statement, agent.spending, agent.head_gossip.detector
    return {
        "sottovoce_privacy_info": {statement.status: 1},
        "sottovoce_privacy_epsilon_spent": spending.current.promised_epsilon,
        "sottovoce_privacy_epsilon_limit": statement.epsilon,
        "sottovoce_privacy_delta": statement.delta,
        "sottovoce_privacy_exhausted": agent.core.progress.exhausted,
        "sottovoce_privacy_charges_total": spending.charges,
        "sottovoce_privacy_releases_total": spending.releases,
        "sottovoce_ledger_epsilon_spent": spending.promised_epsilon,
        "sottovoce_ledger_echoes": detector.confirmation_count,
        "sottovoce_ledger_echoes_needed": 0 if detector.peers_optional else detector.required_peers,
    }


def _traffic_values(agent: StatusSource) -> Values:
    counters, listener = agent.counters, agent.transport.listener()
    duplicates = listener.duplicates + (0 if agent.peer_sampling is None else agent.peer_sampling.duplicates)
    return {
        "sottovoce_messages_sent_total": counters.messages,
        "sottovoce_messages_retried_total": counters.retries,
        "sottovoce_messages_received_total": counters.received,
        "sottovoce_messages_duplicate_total": counters.duplicates,
        "sottovoce_messages_refused_total": _with_zeros(REASONS, counters.refused),
        "sottovoce_messages_since_received_seconds": time.monotonic() - counters.received_at,
        "sottovoce_deliveries_failed_total": _with_zeros(CAUSES, counters.failures),
        "sottovoce_shares_unconfirmed": len(agent.core.state.pending),
        "sottovoce_payload_bytes_total": counters.payload_bytes,
        "sottovoce_wire_bytes_total": counters.wire_bytes,
        "sottovoce_transport_up": {name: not trouble for name, trouble in transport_problems(agent).items()},
        "sottovoce_connections_accepted_total": listener.handshakes,
        "sottovoce_connections_refused_total": listener.refused,
        "sottovoce_identity_duplicates_total": duplicates,
    }


def _peer_values(agent: StatusSource) -> Values:
    peer_sampling, identity = agent.peer_sampling, agent.identity
    view: Values = {}
    if peer_sampling is not None:
        view = {
            "sottovoce_view_exchanges_total": _with_zeros(OUTCOMES, peer_sampling.membership.traffic),
            "sottovoce_view_records_refused_total": _with_zeros(RECORD_REASONS, peer_sampling.membership.refused),
        }
    return {
        "sottovoce_peers_known": len(agent.links) if peer_sampling is None else len(peer_sampling.membership.view),
        "sottovoce_peers_linked": len(agent.links),
        "sottovoce_peers_failing": sum(bool(link.failures) for link in agent.links.values()),
        "sottovoce_peers_of_another_task": agent.tasks.other_task_count,
        **view,
        "sottovoce_revocation_version": agent.revocations.version,
        "sottovoce_revoked_devices": len(agent.revocations.revoked),
        "sottovoce_certificate_expires_timestamp_seconds": identity.not_after.timestamp(),
        "sottovoce_certificate_renewal_timestamp_seconds": renewal_time(identity).timestamp(),
    }


def result_values(agent: StatusSource) -> Values:
    """Return the newest result of the fleet's secure sums, if there is one and the owner has it served."""
    if not agent.config.observe.results or agent.results is None:
        return {}
    newest = agent.results.book.results[-1:]
    if not newest or agent.model is None:
        return {}
    (document,) = newest
    opened = document.opened
    values: Values = {
        "sottovoce_result_members": opened.members,
        "sottovoce_result_signatures": len(document.confirmations),
        "sottovoce_result_signatures_required": opened.read_cell().opening_threshold(len(opened.owners)),
        "sottovoce_result_noise_deviation": opened.sigma / opened.members,
    }
    if len(agent.model) <= _MAX_RESULT_VALUES:
        values["sottovoce_result_value"] = {f"{i:02d}": float(value) for i, value in enumerate(agent.model)}
    return values


def wait_values(waits: Waits) -> Values:
    """Return the counts and durations of waits by kind, with 0 for a kind without waits; vault waits are left out."""
    now = time.monotonic()
    in_progress, overdue, longest = _with_zeros(WAITS), _with_zeros(WAITS), _with_zeros(WAITS)
    for name, wait in waits.current.copy().items():
        if (kind := name.partition(":")[0]) != _UNPUBLISHED:
            in_progress[kind] = in_progress.get(kind, 0) + 1
            overdue[kind] = overdue.get(kind, 0) + (not wait.repeats and now > wait.until + _OVERDUE_SECONDS)
            longest[kind] = max(longest.get(kind, 0), now - wait.since)
    published_totals = {kind: totals for kind, totals in waits.totals.copy().items() if kind != _UNPUBLISHED}
    return {
        "sottovoce_waits": in_progress,
        "sottovoce_waits_overdue": overdue,
        "sottovoce_waits_begun_total": _with_zeros(
            WAITS, {kind: totals.count for kind, totals in published_totals.items()}
        ),
        "sottovoce_wait_seconds_total": _with_zeros(
            WAITS, {kind: totals.seconds for kind, totals in published_totals.items()}
        ),
        "sottovoce_wait_longest_seconds": longest,
    }


def _with_zeros(labels: tuple[str, ...], values: Mapping[str, float] | None = None) -> dict[str, float]:
    """Return a copy of `values` with a value of 0 for each label that has none."""
    return {**dict.fromkeys(labels, 0.0), **(values or {})}


def _process_values(measurements: ProcessMeasurements) -> Values:
    return {
        "sottovoce_process_resident_memory_bytes": measurements.resident_bytes,
        "sottovoce_process_memory_limit_bytes": measurements.memory_limit_bytes,
        "sottovoce_process_cpu_seconds_total": measurements.cpu_seconds,
    }


def _disk_values(agent: StatusSource, measurements: ProcessMeasurements) -> Values:
    """Return the metrics of the disk, which also holds records, for example in a meter's feed and in the ledger."""
    config, resting = agent.config, resting_until(agent.waits)
    return {
        "sottovoce_ledger_bytes": _ledger_bytes(agent) if config.vault.socket is None else None,
        "sottovoce_ledger_written_today_bytes": agent.spending.written_today,
        "sottovoce_ledger_written_today_limit_bytes": config.ledger.bytes_per_day,
        "sottovoce_written_today_bytes": agent.daily_writes(),
        "sottovoce_written_today_limit_bytes": config.agent.bytes_per_day,
        "sottovoce_resting_until_timestamp_seconds": 0 if resting is None else resting.timestamp(),
        "sottovoce_state_free_bytes": measurements.free_bytes,
    }


def _ledger_bytes(agent: StatusSource) -> int:
    """Return the ledger's size in bytes, including SQLite's write-ahead log, which contains the latest charges."""
    ledger = agent.config.agent.state / LEDGER
    return sum(file.stat().st_size for file in (ledger, ledger.with_name(f"{LEDGER}-wal")) if file.exists())


class ObservedAgent(StatusSource, Protocol):
    """The agent interface from which metrics and health are read."""

    trust: Trust

    def run_serially(self, operation: Callable[[], list[Action]]) -> Awaitable[None]:
        """Run an operation on the core; only one operation runs at a time."""
        ...


@asynccontextmanager
async def serve_observation(agent: ObservedAgent) -> AsyncIterator[None]:
    """Serve this agent's metrics and health at the configured address for the duration of the context.

    Raises:
        ConfigError: if a required package is not installed.
        NetworkError: if the address cannot be used.
    """

    async def metrics() -> Values:
        measurements = (
            await asyncio.to_thread(measure_machine, agent.config.agent.state) if can_publish_machine(agent) else None
        )
        return agent_values(agent, measurements)

    async def live() -> dict[str, str]:
        return {"loop": "", "core": await core_problem(agent)}

    async def ready() -> dict[str, str]:
        return readiness(agent)

    async with _serve_pages(agent.config.observe.address, metrics, live, ready):
        yield


@asynccontextmanager
async def serve_fault_observation(address: tuple[str, int], fault: Fault) -> AsyncIterator[None]:
    """Serve metrics and health for an agent that cannot run because of a fault: it is alive but not ready.

    Raises:
        ConfigError, NetworkError: see `serve_observation`.
    """

    async def metrics() -> Values:
        return fault_values(fault)

    async def live() -> dict[str, str]:
        return {"loop": ""}

    async def ready() -> dict[str, str]:
        return {"fault": fault.summary}

    async with _serve_pages(address, metrics, live, ready):
        yield


@asynccontextmanager
async def _serve_pages(
    address: tuple[str, int],
    metrics: Callable[[], Awaitable[Values]],
    live: Callable[[], Awaitable[dict[str, str]]],
    ready: Callable[[], Awaitable[dict[str, str]]],
) -> AsyncIterator[None]:
    try:
        from sottovoce.ops.metrics import page
    except ModuleNotFoundError as error:
        raise ConfigError(
            "observe.metrics requires the package prometheus-client; install sottovoce[metrics], or remove the key"
        ) from error
    started_at = time.monotonic()

    async def metrics_page() -> Page:
        return page({"sottovoce_uptime_seconds": time.monotonic() - started_at, **await metrics()})

    async def liveness_page() -> Page:
        return health(await live())

    async def readiness_page() -> Page:
        return health(await ready())

    page_server = PageServer({"/metrics": metrics_page, "/livez": liveness_page, "/readyz": readiness_page})
    await page_server.start(*address)
    try:
        yield
    finally:
        await page_server.stop()


def can_publish_machine(agent: ObservedAgent) -> bool:
    """Return whether the operating system's measurements of this process may be published."""
    return agent.config.observe.is_local or agent.config.vault.socket is not None


async def core_problem(agent: ObservedAgent, seconds: float = _CORE_SECONDS) -> str:
    """Return what is wrong with the core, or an empty string if it responds in time."""
    try:
        async with asyncio.timeout(seconds):
            await agent.run_serially(list)
    except TimeoutError:
        return f"the core has not responded for {seconds:g} s"
    except RuntimeError:  # the core's thread no longer accepts jobs
        return "the agent is stopping"
    return ""


def readiness(agent: ObservedAgent) -> dict[str, str]:
    """Return, for each component, why it prevents this device from learning with others; empty if it does not."""
    problems = transport_problems(agent)
    is_up = not all(problems.values())
    return {
        "identity": _identity_problem(agent),
        "ledger": "the vault process is not responding" if "vault-process" in agent.waits.current else "",
        "transport": "" if is_up else "; ".join(f"{name}: {trouble}" for name, trouble in problems.items()),
    }


def _identity_problem(agent: ObservedAgent) -> str:
    if datetime.now(UTC) >= agent.identity.not_after:
        return "this device's certificate has expired; run `sottovoce fleet renew`"
    if agent.identity.node_id in agent.trust.revoked:
        return "this device has been revoked by its fleet"
    return ""
