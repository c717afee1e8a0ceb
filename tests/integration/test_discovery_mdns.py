"""Agents that know nobody, each on a host of its own, and what they find on their network."""

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from sottovoce.identity import Fleet

from tests.support.devices import Device, new_device
from tests.support.namespaces import Host, Lan, Unavailable, lan
from tests.support.processes import AgentProcess
from tests.support.waiting import until

MANY = 30
PERIOD = 2.5
FINDING = {"sampling": "newscast", "period": PERIOD, "mdns": True}


@pytest.fixture
def islands() -> Iterator[Lan]:
    """Two switches with no cable between them."""
    try:
        with lan(switches=2) as network:
            yield network
    except Unavailable as reason:
        pytest.skip(str(reason))


def on(host: Host, device: Device, membership: dict[str, object] | None = None) -> Device:
    """A device that listens on its host and knows nobody."""
    return device.configure(
        [],
        transport={"listen": f"{host.address}:7400", "peers": []},
        membership=membership or FINDING,
        learner={"period": 1.0, "steps": 1},
        ledger={"alone": False},
    )


def views(agents: Sequence[AgentProcess]) -> dict[str, set[str]]:
    """For each agent, the ids in its view."""
    return {agent.device.id: {entry["id"] for entry in agent.status()["membership"]["view"]} for agent in agents}


def components(views: dict[str, set[str]]) -> int:
    """Weakly connected components among those whose views these are."""
    label = {node: node for node in views}
    for _ in views:
        for node, view in views.items():
            group = [node, *(peer for peer in view if peer in views)]
            least = min(label[peer] for peer in group)
            label.update(dict.fromkeys(group, least))
    return len(set(label.values()))


def dead_share(views: dict[str, set[str]]) -> float:
    entries = [peer for view in views.values() for peer in view]
    return sum(peer not in views for peer in entries) / max(1, len(entries))


@pytest.mark.timeout(400)
def test_islands_find_themselves_then_each_other_and_outlive_half_of_them(
    islands: Lan, fleet: Fleet, tmp_path: Path
) -> None:
    hosts = [islands.host(number % 2) for number in range(MANY)]
    devices = [on(host, new_device(fleet, tmp_path / f"d{i:02}", records=3)) for i, host in enumerate(hosts)]
    with ExitStack() as stack:
        agents = [
            stack.enter_context(AgentProcess(device, host.within)) for device, host in zip(devices, hosts, strict=True)
        ]
        for agent in agents:
            agent.ready()
        sides = [{device.id for device in devices[side::2]} for side in (0, 1)]

        def complete() -> bool:
            known = views(agents)
            return all(known[node] == side - {node} for side in sides for node in side)

        began = time.monotonic()
        until(complete, "each island is one fleet", 120.0)
        print(f"each island knows itself after {time.monotonic() - began:.1f} s")
        islands.join(0, 1)
        began = time.monotonic()
        until(lambda: all(len(view) == MANY - 1 for view in views(agents).values()), "both are one fleet", 120.0)
        print(f"one fleet {time.monotonic() - began:.1f} s after they were joined")
        for agent in agents[: MANY // 2]:
            agent.process.send_signal(signal.SIGKILL)
        living, killed = agents[MANY // 2 :], time.monotonic()
        until(lambda: dead_share(views(living)) < 0.05, "the dead are forgotten", 10 * PERIOD)
        print(f"dead entries below 5 % after {(time.monotonic() - killed) / PERIOD:.1f} periods")
        assert components(views(living)) == 1
        assert all(agent.status()["membership"]["refused"] == {} for agent in living)
        until(lambda: all(agent.status()["traffic"]["received"] for agent in living), "they learn from one another")
