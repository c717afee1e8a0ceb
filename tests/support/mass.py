"""Push-sum mass of stopped golf agents, and the mass of the records that their ledgers say they released."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from sottovoce.algorithms.push_sum.public.machine import WEIGHT_ONE
from sottovoce.algorithms.push_sum.public.messages import PushSumShare
from sottovoce.config import AgentConfig
from sottovoce.node.state_directory import state_files
from sottovoce.privacy.api import Release
from sottovoce_papers.hegedus_2017.golf.public.moments_machine import GolfMoments, MomentsState

from tests.support.saved_states import messages_in_transit, read_agents


class Mass(NamedTuple):
    """A sum of push-sum shares: int64[P] and a weight, both in units of 2^-40."""

    numerator: NDArray[np.int64]
    weight: int


def measure_mass(fleet: Mapping[str, Path]) -> tuple[Mass, Mass]:
    """Return the mass in the agents' states and in transit, and the mass of all released records.

    Args:
        fleet: the configuration files of all agents, which are stopped, by node id.
    """
    agents = read_agents(fleet)
    golf = cast(GolfMoments, next(iter(agents.values())).learner)
    held = released = np.zeros(golf.schedule.width, dtype=np.int64)
    weight = 0
    for agent in agents.values():
        state = cast(MomentsState, agent.saved.state)
        held, weight = held + state.numerator, weight + state.weight
        for record in _read_releases(agent.config):
            released = golf.with_release(state, released, cast(Release, SimpleNamespace(value=record)))
    for message in messages_in_transit(agents):
        share = cast(PushSumShare, message)
        held, weight = held + share.numerator, weight + share.weight
    return Mass(held, weight), Mass(released, len(fleet) * WEIGHT_ONE)


def _read_releases(config: AgentConfig) -> list[NDArray[np.int64]]:
    """Return the released records in the agent's ledger."""
    with closing(sqlite3.connect(state_files(config.agent.state)[1])) as ledger:
        values = ledger.execute("SELECT value FROM release ORDER BY number").fetchall()
    return [np.frombuffer(value, dtype="<i8") for (value,) in values]
