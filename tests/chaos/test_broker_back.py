"""Broker that returns after an outage: within two periods, devices exchange messages as before."""

import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from sottovoce.identity import Fleet

from tests.support.devices import new_device
from tests.support.fleets import new_fleet
from tests.support.mosquitto import MOSQUITTO, Broker
from tests.support.processes import AgentProcess
from tests.support.waiting import until

AGENTS = 3
PERIOD = 10.0
BUSY = 2.0  # beside other tests: as many times two periods
LONG = 240.0
SOAK = [pytest.mark.soak, pytest.mark.timeout(600)]


@pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed")
@pytest.mark.parametrize(
    "sampling, outage, patience",
    [
        pytest.param("newscast", 20.0, BUSY * 2 * PERIOD, id="short"),
        pytest.param("newscast", LONG, 2 * PERIOD, id="long", marks=SOAK),
        pytest.param("static", LONG, 2 * PERIOD, id="long-static", marks=SOAK),
    ],
)
def test_devices_meet_again_within_two_periods(tmp_path: Path, sampling: str, outage: float, patience: float) -> None:
    fleet: Fleet = new_fleet(tmp_path / "fleet")
    devices = [new_device(fleet, tmp_path / f"d{i}", seed=i) for i in range(AGENTS)]
    with ExitStack() as stack:
        broker = stack.enter_context(Broker(tmp_path / "broker"))
        for device in devices:
            device.configure(
                [other.entry(address="mqtt:main") for other in devices if other is not device],
                learner={"steps": 10_000, "period": PERIOD, "longest_period": PERIOD},
                transport={
                    "use": ["mqtt"], "mqtt": {"url": broker.url}, "timeout": 10.0, "backoff": 1.0, "backoff_max": 300.0
                },
                membership={"sampling": sampling},
            )  # fmt: skip
        agents = [stack.enter_context(AgentProcess(device)).ready() for device in devices]
        until(lambda: all(map(exchanged, agents)), "they have met", 120.0)
        broker.kill()
        time.sleep(outage)  # how long it is away is the point
        before = [exchanged(agent) for agent in agents]
        broker.start()
        began = time.monotonic()
        until(
            lambda: all(exchanged(agent) > count for agent, count in zip(agents, before, strict=True)),
            "every device has received something",
            patience,
        )
        met = time.monotonic() - began
        until(lambda: not any(map(failing, agents)), "every link delivers", patience - met)
        print(f"{sampling}, away for {outage:g} s: messages after {met:.1f} s, links {time.monotonic() - began:.1f} s")
        assert [agent.end() for agent in agents] == [0] * AGENTS


def exchanged(agent: AgentProcess) -> int:
    """The number of messages that the agent has received, once it has also sent some."""
    traffic = agent.status()["traffic"]
    return int(traffic["received"]) if traffic["messages"] else 0


def failing(agent: AgentProcess) -> bool:
    """Whether one of the agent's links does not deliver, or it has no links."""
    peers = agent.status()["peers"]
    return not peers or any(peer["failures_in_a_row"] for peer in peers)
