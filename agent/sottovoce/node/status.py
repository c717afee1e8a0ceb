"""Documents that describe a device for its operator: public state, counts and totals, but no record data.

`agent status --json` prints the device's own state; `fleet status --json` prints the devices that it knows, and when it
last heard from each of them.
"""

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Protocol

import numpy as np
from cryptography import x509
from numpy.typing import NDArray

from sottovoce.config import AgentConfig
from sottovoce.fleet import Identity, Trust
from sottovoce.fleet.renewal import renewal_time
from sottovoce.net.transports import Transport
from sottovoce.node.control import STATUS_SCHEMA
from sottovoce.node.core import Core
from sottovoce.node.gossip.ledger_head_gossip import LedgerHeadGossip
from sottovoce.node.gossip.peer_sampling import PeerSampler
from sottovoce.node.gossip.result_gossip import ResultGossip
from sottovoce.node.gossip.revocation_gossip import RevocationGossip
from sottovoce.node.link import Link
from sottovoce.node.tasks import Condition, RollCall, Tasks
from sottovoce.node.waits import DailyCounter, Waits, resting_until
from sottovoce.ops import Counters
from sottovoce.ops.machine import resident_bytes
from sottovoce.privacy.vault import LimitSpending, PeriodSpending, Spending, VaultInterface

FLEET_SCHEMA = "sottovoce.fleet/1"


class StatusSource(Protocol):
    """The agent interface from which the status document is built."""

    config: AgentConfig
    revocations: RevocationGossip
    core: Core
    vault: VaultInterface
    transport: Transport
    counters: Counters
    waits: Waits
    head_gossip: LedgerHeadGossip
    tasks: Tasks
    links: dict[str, Link]
    peer_sampling: PeerSampler | None
    daily_writes: DailyCounter
    results: ResultGossip | None
    model: NDArray[np.float64] | None
    cycle: int

    @property
    def spending(self) -> Spending:
        """The ledger's totals in the vault's last report."""
        ...

    @property
    def identity(self) -> Identity:
        """The device's identity, with its current certificate."""
        ...


def build_status(agent: StatusSource) -> dict[str, Any]:
    """Return the status of an agent as a JSON-ready document."""
    progress, counters = agent.core.progress, agent.counters
    pending = agent.core.state.pending
    listener, resting = agent.transport.listener(), resting_until(agent.waits)
    return {
        "schema": STATUS_SCHEMA,
        "id": agent.identity.node_id,
        "fleet": agent.identity.fleet,
        "state": progress.phase if resting is None else "resting",
        "resting_until": None if resting is None else resting.isoformat(timespec="seconds"),
        "learner": agent.config.learner.name,
        "cycle": agent.cycle,
        "steps_done": progress.steps_done,
        "steps": progress.steps,
        **progress.details,
        "privacy": {
            **agent.vault.statement.as_dict(),
            "spent_epsilon": agent.spending.current.promised_epsilon,
            **({} if agent.spending.alone is None else {"spent_epsilon_alone": agent.spending.epsilon_alone}),
            "charges": agent.spending.charges,
            "releases": agent.spending.releases,
            "exhausted": progress.exhausted,
        },
        "ledger": {
            "spent_epsilon": agent.spending.promised_epsilon,
            "alone": agent.head_gossip.detector.peers_optional,
            "echoes": agent.head_gossip.detector.confirmation_count,
            "echoes_needed": agent.head_gossip.detector.required_peers,
            "keepers": sorted(agent.head_gossip.witness_registry.nodes),
            "period": _describe_period(agent.spending.of_period),
            "limits": [_describe_limit(limit) for limit in agent.spending.of_limits],
            "lasts_days": _to_days(agent.spending.lasts),
            "written_bytes_today": agent.spending.written_today,
            "bytes_per_day": agent.config.ledger.bytes_per_day,
        },
        "peers": [
            {
                "id": link.peer.id,
                "address": link.peer.address,
                "unconfirmed": link.peer.id in pending,
                "failures_in_a_row": link.failures,
                "last_failure": link.last_failure,
            }
            for link in agent.links.values()
        ]
        + _unreached_contacts(agent),
        "task": agent.tasks.to_dict(),
        "membership": _describe_membership(agent.peer_sampling),
        "traffic": {
            "messages": counters.messages,
            "retries": counters.retries,
            "payload_bytes": counters.payload_bytes,
            "wire_bytes": counters.wire_bytes,
            "received": counters.received,
            "duplicates": counters.duplicates,
        },
        "transport": {"trouble": listener.trouble, "duplicates": listener.duplicates},
        "refused": {
            "handshakes": listener.refused,
            "messages": dict(counters.refused),
            "flooding": list(listener.flooding),
        },
        "failures": dict(counters.failures),
        "waiting": agent.waits.to_dict(),
        "certificate_expires": agent.identity.not_after.isoformat(),
        "certificate": _describe_certificate(agent.identity),
        "revocations": {"version": agent.revocations.version, "devices": len(agent.revocations.revoked)},
        "resources": {
            "rss_mib": resident_bytes() / 2**20,
            "cpu_s": time.process_time(),
            "written_bytes_today": agent.daily_writes(),
            "bytes_per_day": agent.config.agent.bytes_per_day,
        },
    }


def _describe_certificate(identity: Identity) -> dict[str, Any]:
    """Return the certificate's mode, the time from which it should be renewed, and whether renewal is overdue."""
    due = renewal_time(identity)
    return {"mode": identity.mode, "renew_from": due.isoformat(), "overdue": datetime.now(UTC) > due}


def _unreached_contacts(agent: StatusSource) -> list[dict[str, Any]]:
    """Return the contacts without a link whose last exchange failed, so the operator can see why."""
    if agent.peer_sampling is None:
        return []
    find = agent.peer_sampling.membership.find
    return [
        {
            "id": node,
            "address": contact.endpoints[0],
            "unconfirmed": False,
            "failures_in_a_row": trouble.failures,
            "last_failure": trouble.last_failure,
        }
        for node, trouble in agent.peer_sampling.failing_peers.items()
        if node not in agent.links and (contact := find(node)) is not None
    ]


def _describe_membership(peer_sampling: PeerSampler | None) -> dict[str, Any]:
    """Return the devices that this one knows, and the state of its view exchanges."""
    if peer_sampling is None:
        return {"sampling": "static"}
    membership = peer_sampling.membership
    return {
        "sampling": "newscast",
        "view": [{"id": record.node_id, "address": record.endpoints[0]} for record in membership.view],
        "exchanges": dict(membership.traffic),
        "refused": dict(membership.refused),
        "period_s": round(membership.period, 3),
        "duplicates": peer_sampling.duplicates,
        "sources": {name: asdict(statistics) for name, statistics in peer_sampling.discovery.statistics.items()},
    }


def _describe_period(spent: PeriodSpending | None) -> dict[str, Any] | None:
    """Return the ledger's budget period; None for a budget that covers the device's whole life."""
    if spent is None:
        return None
    return {
        "number": spent.period.number,
        "spent_epsilon": spent.epsilon if math.isfinite(spent.epsilon) else None,
        "lived_days": spent.period.elapsed / 86_400,
        "least_days": spent.period.least / 86_400 if math.isfinite(spent.period.least) else None,
        "next_is_signed": spent.period.waiting,
    }


def _describe_limit(spent: LimitSpending) -> dict[str, Any]:
    """Return one of the owner's limits, which applies to all tasks together."""
    return {
        "span": spent.span,
        "epsilon": spent.limit,
        "spent_epsilon": spent.epsilon if math.isfinite(spent.epsilon) else None,
        "ends_days": spent.ends / 86_400,
    }


def _to_days(seconds: float | None) -> float | None:
    """Convert the time until the budget is spent, at the past rate, to days; None if unknown or nothing was spent."""
    return None if seconds is None or not math.isfinite(seconds) else seconds / 86_400


class RosterSource(Protocol):
    """The agent interface from which the fleet report is built."""

    config: AgentConfig
    trust: Trust
    tasks: Tasks
    peer_sampling: PeerSampler | None
    roll_call: RollCall

    @property
    def identity(self) -> Identity:
        """The device's identity."""
        ...


async def build_fleet_report(agent: RosterSource) -> dict[str, Any]:
    """Return a JSON-ready report, with only public facts, on this device and the devices that it knows."""
    identity, sampling = agent.identity, agent.peer_sampling
    own_entry = _device_entry(
        agent,
        identity.node_id,
        agent.config.transport.announced_addresses,
        heard=0.0,
        expires=identity.not_after,
        same_task=True,
    )
    devices = [own_entry, *(_configured_devices(agent) if sampling is None else _sampled_devices(agent, sampling))]
    known = {device["id"] for device in devices}
    devices += [_device_entry(agent, node) for node in sorted(agent.trust.revoked - known)]
    node_ids = [device["id"] for device in devices[1:] if not (device["leaving"] or device["revoked"])]
    conditions = {
        identity.node_id: agent.roll_call.own_condition(),
        **await agent.roll_call.collect_conditions(node_ids),
    }
    for device in devices:
        if (condition := conditions.get(device["id"])) is not None:
            device["same_task"] = condition.task == agent.tasks.own_task.digest.hex()
        device.update(_condition_fields(condition))
    return {
        "schema": FLEET_SCHEMA,
        "fleet": identity.fleet,
        "id": identity.node_id,
        "period_s": agent.config.membership.period,
        "devices": devices,
    }


def _condition_fields(condition: Condition | None) -> dict[str, Any]:
    """Return the fields of a device's report about itself; None for each if the device does not answer."""
    fields = ("release", "epoch", "health")
    return dict.fromkeys(fields) if condition is None else {name: getattr(condition, name) for name in fields}


def _sampled_devices(agent: RosterSource, sampling: PeerSampler) -> list[dict[str, Any]]:
    return [
        _device_entry(
            agent,
            record.node_id,
            record.endpoints,
            heard=round(age, 1),
            leaving=record.leaving,
            expires=x509.load_der_x509_certificate(record.certificate).not_valid_after_utc,
            same_task=agent.tasks.shares_task_with(record.node_id),
        )
        for record, age in sampling.membership.recently_seen(asyncio.get_running_loop().time())
        if record.node_id != agent.identity.node_id
    ]


def _configured_devices(agent: RosterSource) -> list[dict[str, Any]]:
    """Return the entries of a fleet with a static peer list, in which peers do not introduce other peers."""
    peers = agent.config.transport.peers
    return [
        _device_entry(agent, peer.id, (peer.address,), same_task=agent.tasks.shares_task_with(peer.id))
        for peer in peers
    ]


def _device_entry(
    agent: RosterSource,
    node: str,
    endpoints: Sequence[str] = (),
    *,
    heard: float | None = None,
    leaving: bool = False,
    expires: datetime | None = None,
    same_task: bool | None = None,
) -> dict[str, Any]:
    """Return the entry of one device, with None for unknown facts."""
    return {
        "id": node,
        "endpoints": list(endpoints),
        "heard_s": heard,
        "leaving": leaving,
        "revoked": node in agent.trust.revoked,
        "certificate_expires": None if expires is None else expires.isoformat(),
        "same_task": same_task,
    }
