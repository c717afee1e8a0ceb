"""Agents without configured peers, which find one another through a broker that holds each agent's presence."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sottovoce_operator.fleet import Fleet
from sottovoce_operator.fleet.mosquitto import write_broker

from tests.support.devices import new_device
from tests.support.islands import SIZES, agents_on, check_merge_and_survival, two_islands
from tests.support.mosquitto import MOSQUITTO
from tests.support.namespaces import Host

pytestmark = pytest.mark.process

PORT = 8883


@contextmanager
def brokers(fleet: Fleet, hosts: list[Host], directory: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """One Mosquitto per host, all hardened, at the same address."""
    if MOSQUITTO is None:
        pytest.skip("mosquitto is not installed")
    configuration = write_broker(fleet, directory / "broker", [hosts[0].address], port=PORT, user="root")
    running: list[subprocess.Popen[bytes]] = []
    try:
        for number, host in enumerate(hosts):
            with (directory / f"broker-{number}.log").open("wb") as log:
                command = [*host.within, MOSQUITTO, "-c", str(configuration)]
                running.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        yield running
    finally:
        for process in running:
            process.kill()
            process.wait()


@pytest.mark.timeout(400)
@pytest.mark.parametrize("many, period", SIZES)
def test_agents_at_two_brokers_become_one_fleet_and_survive_the_loss_of_half(
    fleet: Fleet, tmp_path: Path, many: int, period: float
) -> None:
    """Both islands use one broker address. When they are joined, one broker stops, and all agents use the other."""
    with two_islands() as islands:
        address = "10.77.250.1"
        places = [islands.host(side, address) for side in (0, 1)]
        hosts = [islands.host(number % 2) for number in range(many)]
        devices = [
            new_device(fleet, tmp_path / f"d{i:02}", records=3).configure(
                [],
                transport={"use": ["mqtt"], "peers": [], "mqtt": {"url": f"mqtts://{address}:{PORT}"}},
                membership={"sampling": "newscast", "period": period},
                learner={"period": 1.0, "steps": 1},
                ledger={"alone": False},
            )
            for i in range(many)
        ]
        with brokers(fleet, places, tmp_path) as running, agents_on(hosts, devices) as agents:

            def join() -> None:
                running[1].kill()
                running[1].wait()
                islands.unplug(places[1])
                islands.join(0, 1)

            check_merge_and_survival(agents, period, join)
