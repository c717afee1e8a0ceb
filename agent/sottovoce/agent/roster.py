"""The fleet as one of its devices knows it: whom it has heard of, and when; for whoever operates it."""

import asyncio
from typing import Any, Protocol

from cryptography import x509

from sottovoce.agent.peer_sampling import PeerSampling
from sottovoce.agent.tasks import Tasks
from sottovoce.config import AgentConfig
from sottovoce.identity import Identity, Trust

SCHEMA = "sottovoce.fleet/1"


class Listing(Protocol):
    """The parts of an agent that this is made of."""

    config: AgentConfig
    trust: Trust
    tasks: Tasks
    peer_sampling: PeerSampling | None

    @property
    def identity(self) -> Identity:
        """Who the device is."""
        ...


def roster(agent: Listing) -> dict[str, Any]:
    """Every device that this one knows of, itself included, JSON-ready: what they say in public, and nothing else."""
    revoked, mine = agent.trust.revoked, agent.identity
    own = {
        "id": mine.node_id,
        "endpoints": list(agent.config.transport.announced),
        "heard_s": 0.0,
        "leaving": False,
        "revoked": mine.node_id in revoked,
        "certificate_expires": mine.not_after.isoformat(),
        "same_task": True,
    }
    sampling = agent.peer_sampling
    listed = [own, *(_configured(agent) if sampling is None else _heard(agent, sampling))]
    known = {device["id"] for device in listed}
    gone: dict[str, Any] = {
        "endpoints": [],
        "heard_s": None,
        "leaving": False,
        "revoked": True,
        "certificate_expires": None,
    }
    listed += [{"id": node, **gone, "same_task": None} for node in sorted(revoked - known)]
    return {
        "schema": SCHEMA,
        "fleet": mine.fleet,
        "id": mine.node_id,
        "period_s": agent.config.membership.period,
        "devices": listed,
    }


def _heard(agent: Listing, sampling: PeerSampling) -> list[dict[str, Any]]:
    known = sampling.membership.known(asyncio.get_running_loop().time())
    return [
        {
            "id": record.node_id,
            "endpoints": list(record.endpoints),
            "heard_s": round(age, 1),
            "leaving": record.leaving,
            "revoked": record.node_id in agent.trust.revoked,
            "certificate_expires": x509.load_der_x509_certificate(record.certificate).not_valid_after_utc.isoformat(),
            "same_task": agent.tasks.mixes(record.node_id),
        }
        for record, age in known
        if record.node_id != agent.identity.node_id
    ]


def _configured(agent: Listing) -> list[dict[str, Any]]:
    """Of a fleet that keeps to a list: nobody tells of anybody."""
    return [
        {
            "id": peer.id,
            "endpoints": [peer.address],
            "heard_s": None,
            "leaving": False,
            "revoked": peer.id in agent.trust.revoked,
            "certificate_expires": None,
            "same_task": agent.tasks.mixes(peer.id),
        }
        for peer in agent.config.transport.peers
    ]
