"""A fleet on two network islands, with one host per agent, and the scenario that every peer source must pass."""

import signal
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import zip_longest

import pytest

from tests.support.devices import Device
from tests.support.namespaces import Host, Lan, Unavailable, lan
from tests.support.processes import AgentProcess
from tests.support.waiting import until

SIZES = [(8, 1.5), pytest.param(30, 2.0, marks=pytest.mark.soak)]
"""Number of agents, and seconds between their exchanges."""

_FORGETTING_PERIODS = 10
_ASKING_SECONDS = 2.0  # time to query fifteen agents on a busy machine

Views = Mapping[str, Collection[str]]


@contextmanager
def two_islands() -> Iterator[Lan]:
    """Make two switches with no cable between them; skip the test if that is impossible."""
    try:
        with lan(switches=2) as network:
            yield network
    except Unavailable as reason:
        pytest.skip(str(reason))


@contextmanager
def agents_on(hosts: Sequence[Host], devices: Sequence[Device]) -> Iterator[list[AgentProcess]]:
    """Run the agents of these devices, each on its host, until all are ready; kill them at the end."""
    with ExitStack() as stack:
        agents = [
            stack.enter_context(AgentProcess(device, host.within)) for device, host in zip_longest(devices, hosts)
        ]
        yield [agent.ready() for agent in agents]


def views(agents: Sequence[AgentProcess]) -> dict[str, set[str]]:
    """Return, for each agent, the ids in its view."""
    return {agent.device.id: {entry["id"] for entry in agent.status()["membership"]["view"]} for agent in agents}


def components(views: Views) -> int:
    """Return the number of weakly connected components among the agents with these views."""
    label = {node: node for node in views}
    for _ in views:
        for node, view in views.items():
            group = [node, *(peer for peer in view if peer in views)]
            least = min(label[peer] for peer in group)
            label.update(dict.fromkeys(group, least))
    return len(set(label.values()))


def dead_share(views: Views) -> float:
    """Return the share of all view entries that name devices other than the agents with these views."""
    entries = [peer for view in views.values() for peer in view]
    return sum(peer not in views for peer in entries) / max(1, len(entries))


def check_merge_and_survival(agents: Sequence[AgentProcess], period: float, join: Callable[[], None]) -> None:
    """Check that each island becomes one fleet, that joined islands do too, and that survivors forget killed agents.

    Args:
        agents: agents, on the two islands in turn.
        period: seconds between their exchanges.
        join: function that joins the two islands.
    """
    sides = [{agent.device.id for agent in agents[side::2]} for side in (0, 1)]

    def complete() -> bool:
        known = views(agents)
        return all(known[node] == side - {node} for side in sides for node in side)

    began = time.monotonic()
    until(complete, "each island is one fleet", 120.0)
    print(f"each island is one fleet {time.monotonic() - began:.1f} s after its last agent was ready")
    join()
    began = time.monotonic()
    until(lambda: all(len(view) == len(agents) - 1 for view in views(agents).values()), "both are one fleet", 120.0)
    print(f"both are one fleet {time.monotonic() - began:.1f} s after they were joined")
    for agent in agents[: len(agents) // 2]:
        agent.process.send_signal(signal.SIGKILL)
    living, killed = agents[len(agents) // 2 :], time.monotonic()
    patience = _FORGETTING_PERIODS * period + _ASKING_SECONDS
    until(lambda: dead_share(views(living)) < 0.05, "dead devices are forgotten", patience)
    print(f"dead entries below 5 % {(time.monotonic() - killed) / period:.1f} periods after half was killed")
    assert components(views(living)) == 1
    assert all(agent.status()["membership"]["refused"] == {} for agent in living)
    until(lambda: all(agent.status()["traffic"]["received"] for agent in living), "they learn from one another")
