"""Document that `agent status --json` prints: public state, counts and the ledger's totals, but no record data."""

import math
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from sottovoce.config import AgentConfig
from sottovoce.errors import NetworkError
from sottovoce.fleet import Identity
from sottovoce.fleet.renewal import renewal_time
from sottovoce.net.transports import Transport
from sottovoce.node.control import ask
from sottovoce.node.core import Core
from sottovoce.node.gossip.ledger_head_gossip import LedgerHeadGossip
from sottovoce.node.gossip.peer_sampling import PeerSampler
from sottovoce.node.gossip.revocation_gossip import RevocationGossip
from sottovoce.node.link import Link
from sottovoce.node.tasks import Tasks
from sottovoce.node.wait_status import Waits
from sottovoce.node.write_throttle import DailyCounter
from sottovoce.ops import Counters
from sottovoce.ops.machine import resident_bytes
from sottovoce.privacy.vault import LimitSpending, PeriodSpending, Spending, VaultInterface

SCHEMA = "sottovoce.status/1"


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
    listener = agent.transport.listener()
    return {
        "schema": SCHEMA,
        "id": agent.identity.node_id,
        "fleet": agent.identity.fleet,
        "state": progress.phase,
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
        "refused": {"handshakes": listener.refused, "messages": dict(counters.refused)},
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


def ask_status(state: Path, timeout: float) -> dict[str, Any] | None:
    """Return the status of the agent that runs on a state directory; None if no agent of this version answers in time.

    Args:
        state: the state directory.
        timeout: timeout in seconds.
    """
    try:
        status = ask(state, "status", timeout)
    except NetworkError:
        return None
    return status if status.get("schema") == SCHEMA else None
