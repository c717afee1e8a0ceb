"""A member that floods the others through the broker: they leave its topic, and each other's messages arrive."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from getpass import getuser
from pathlib import Path

import pytest
from sottovoce_operator.fleet import Fleet
from sottovoce_operator.fleet.mosquitto import write_broker

from tests.support.broker_floods import broker_flood
from tests.support.devices import Device, free_port, new_device
from tests.support.mosquitto import MOSQUITTO, HardenedBroker
from tests.support.processes import AgentProcess
from tests.support.waiting import until

pytestmark = [pytest.mark.process, pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed")]

AGENTS, PERIOD, SECONDS, PACE = 4, 0.4, 60.0, 0.8


@pytest.fixture
def agents(fleet: Fleet, tmp_path: Path) -> Iterator[list[AgentProcess]]:
    port = free_port()
    configuration = write_broker(
        fleet, tmp_path / "broker", ["127.0.0.1"], port=port, listen="127.0.0.1", user=getuser()
    )
    devices = [new_device(fleet, tmp_path / f"d{i}", seed=i, epsilon=50.0) for i in range(AGENTS)]
    for i, device in enumerate(devices):
        device.configure(
            [devices[(i + j) % AGENTS].entry(address="mqtt:main") for j in (1, 2)],
            learner={"period": PERIOD, "steps": 10_000},
            privacy={"epsilon": 50.0},
            transport={"use": ["mqtt"], "mqtt": {"url": f"mqtts://127.0.0.1:{port}"}},
        )
    with ExitStack() as stack:
        stack.enter_context(HardenedBroker(configuration, port))
        yield [stack.enter_context(AgentProcess(device)).ready() for device in devices]


@pytest.fixture
def flooder(fleet: Fleet, tmp_path: Path) -> Device:
    return new_device(fleet, tmp_path / "flooder")


def test_a_flooder_is_shut_out_and_the_others_are_heard(
    agents: list[AgentProcess], flooder: Device, tmp_path: Path
) -> None:
    until(lambda: all(count > 2 for count in _received(agents)), "they exchange messages")
    with _flood(agents, flooder, tmp_path):
        until(lambda: all(agent.status()["refused"]["flooding"] == [flooder.id] for agent in agents), "all shut it out")
        first = _received(agents)
        until(
            lambda: all(b > a + 2 for a, b in zip(first, _received(agents), strict=True)),
            "they exchange messages during the flood",
        )
    _check_logs(agents, flooder)


@pytest.mark.soak
def test_a_flooder_costs_the_others_few_messages(agents: list[AgentProcess], flooder: Device, tmp_path: Path) -> None:
    until(lambda: all(count > 2 for count in _received(agents)), "they exchange messages")
    quiet, idle = _paced(agents, 5.0)
    with _flood(agents, flooder, tmp_path):
        heard, busy = _paced(agents, SECONDS)
        assert [agent.status()["refused"]["flooding"] for agent in agents] == [[flooder.id]] * AGENTS
    print(f"{heard:.2f} received a second and agent (quiet {quiet:.2f}), {busy:.2f} of a core (quiet {idle:.2f})")
    assert heard >= PACE * quiet
    _check_logs(agents, flooder)


def _paced(agents: list[AgentProcess], seconds: float) -> tuple[float, float]:
    """Return the messages received and the processor seconds used, per second and agent."""
    first, begin = [agent.status() for agent in agents], time.monotonic()
    time.sleep(seconds)
    last, took = [agent.status() for agent in agents], (time.monotonic() - begin) * len(agents)
    return (
        sum(b["traffic"]["received"] - a["traffic"]["received"] for a, b in zip(first, last, strict=True)) / took,
        sum(b["resources"]["cpu_s"] - a["resources"]["cpu_s"] for a, b in zip(first, last, strict=True)) / took,
    )


def _received(agents: list[AgentProcess]) -> list[int]:
    return [agent.status()["traffic"]["received"] for agent in agents]


def _flood(agents: list[AgentProcess], flooder: Device, tmp_path: Path) -> AbstractContextManager[None]:
    port = int(agents[0].device.config.read_text().partition("mqtts://127.0.0.1:")[2].partition('"')[0])
    return broker_flood(port, tmp_path / "broker" / "ca.pem", flooder, [agent.device for agent in agents])


def _check_logs(agents: list[AgentProcess], flooder: Device) -> None:
    """Check that each agent has logged the flooder, has logged little else, and ends as it should."""
    for agent in agents:
        assert agent.logged_line("sender-shut-out", f"sender={flooder.id}")
        assert len(agent.log().splitlines()) < 100
    assert {agent.end() for agent in agents} == {0}
