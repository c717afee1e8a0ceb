"""States of stopped agents, read from their state directories, and the messages between them."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from sottovoce.algorithms.assembly import build_family
from sottovoce.config import AgentConfig, load
from sottovoce.learning.learners import Message
from sottovoce.net.wire.codec import decode
from sottovoce.net.wire.envelope import read_payload
from sottovoce.node.links import SavedState
from sottovoce.node.sqlite_store import SqliteStore
from sottovoce_lab.testbed.unsigned import UnsignedProvenance


class Stopped(NamedTuple):
    """A stopped agent."""

    config: AgentConfig
    learner: Any
    saved: SavedState


def read_agents(fleet: Mapping[str, Path]) -> dict[str, Stopped]:
    """Return the stopped agents by node id.

    Args:
        fleet: the configuration files of all agents by node id.
    """
    agents = {}
    for node, path in fleet.items():
        config = load(path)
        learner, codec = build_family(config).learner(node, UnsignedProvenance(), ())
        agents[node] = Stopped(config, learner, SqliteStore(config.agent.state, learner, codec, 0).load())
    return agents


def messages_in_transit(agents: Mapping[str, Stopped]) -> Iterator[Message]:
    """Yield the messages that their recipients have not applied yet."""
    for node, agent in agents.items():
        for outgoing in agent.saved.outbox:
            newest = agents[outgoing.recipient].saved.seen.get(node)
            if newest is None or outgoing.sequence > newest.sequence:
                yield decode(*read_payload(cast(bytes, outgoing.parcel)))
