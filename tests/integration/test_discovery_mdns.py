"""Agents without configured peers, each on a host of its own, which find one another by multicast DNS."""

from pathlib import Path

import pytest
from sottovoce_operator.fleet import Fleet

from tests.support.devices import new_device
from tests.support.fleets import new_fleet
from tests.support.islands import SIZES, agents_on, check_merge_and_survival, two_islands, views
from tests.support.namespaces import Host
from tests.support.waiting import until

pytestmark = pytest.mark.process

LEARNING: dict[str, object] = {"period": 1.0, "steps": 1}


def by_mdns(host: Host, period: float) -> dict[str, dict[str, object]]:
    """Return the tables for a device that listens on its host and knows no peers."""
    return {
        "transport": {"listen": f"{host.address}:7400", "peers": []},
        "membership": {"sampling": "newscast", "period": period, "mdns": True},
        "learner": LEARNING,
        "ledger": {"alone": False},
    }


@pytest.mark.timeout(400)
@pytest.mark.parametrize("many, period", SIZES)
def test_agents_on_two_islands_become_one_fleet_and_survive_the_loss_of_half(
    fleet: Fleet, tmp_path: Path, many: int, period: float
) -> None:
    with two_islands() as islands:
        hosts = [islands.host(number % 2) for number in range(many)]
        devices = [
            new_device(fleet, tmp_path / f"d{i:02}", records=3).configure([], **by_mdns(host, period))
            for i, host in enumerate(hosts)
        ]
        with agents_on(hosts, devices) as agents:
            check_merge_and_survival(agents, period, lambda: islands.join(0, 1))


def test_fleets_of_the_same_name_on_one_network_do_not_mix(fleet: Fleet, tmp_path: Path) -> None:
    fleets = [fleet, fleet, new_fleet(tmp_path / "authority")]
    with two_islands() as network:
        hosts = [network.host() for _ in fleets]
        devices = [
            new_device(own, tmp_path / f"d{i}", records=3).configure([], **by_mdns(host, 0.5))
            for i, (own, host) in enumerate(zip(fleets, hosts, strict=True))
        ]
        with agents_on(hosts, devices) as agents:
            one, other, foreign = (device.id for device in devices)
            until(lambda: views(agents[:2]) == {one: {other}, other: {one}}, "the fleet's devices find each other")
            looks = until(
                lambda: agents[2].status()["membership"]["sources"]["mdns"]["found"],
                "the third device also sees the network",
            )
            assert looks == 1, "itself"
            assert views(agents[2:]) == {foreign: set()}
            assert all(agent.status()["refused"]["handshakes"] == 0 for agent in agents)
            (wait,) = [wait for wait in agents[2].status()["waiting"] if wait["name"] == "source:mdns"]
            assert "the next query to mdns" in wait["reason"] or "contacts from mdns" in wait["reason"]


def test_a_device_whose_network_comes_up_later_is_found_then(fleet: Fleet, tmp_path: Path) -> None:
    with two_islands() as network:
        hosts = [network.host() for _ in range(2)]
        devices = [new_device(fleet, tmp_path / name, records=3) for name in "ab"]
        for device, host in zip(devices, hosts, strict=True):
            tables = by_mdns(host, 0.5)
            tables["transport"] = {"listen": "0.0.0.0:7400", "announce": f"{host.address}:7400", "peers": []}
            device.configure([], **tables)
        network.unplug(hosts[1])
        with agents_on(hosts, devices) as agents:
            until(lambda: agents[1].status()["membership"]["sources"]["mdns"], "it searches")
            assert all(view == set() for view in views(agents).values())
            network.plug(hosts[1])
            one, other = (device.id for device in devices)
            until(lambda: views(agents) == {one: {other}, other: {one}}, "they find each other")
            assert [agent.end() for agent in agents] == [0, 0]
