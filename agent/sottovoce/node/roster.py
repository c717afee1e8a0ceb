"""Fleet report for operators: the devices that one device knows, and when it last heard from each of them."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

from cryptography import x509

from sottovoce.config import AgentConfig
from sottovoce.fleet import Identity, Trust
from sottovoce.node.gossip.peer_sampling import PeerSampler
from sottovoce.node.roll_call import Condition, RollCall
from sottovoce.node.tasks import Tasks

SCHEMA = "sottovoce.fleet/1"


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
        "schema": SCHEMA,
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
