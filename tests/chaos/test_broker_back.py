"""Broker that returns after an outage: within two periods, devices exchange messages as before."""

import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from sottovoce_operator.fleet import Fleet

from tests.support.devices import new_device
from tests.support.fleets import new_fleet
from tests.support.mosquitto import MOSQUITTO, Broker
from tests.support.processes import AgentProcess
from tests.support.waiting import TIMEOUT, until

pytestmark = pytest.mark.process

AGENTS = 3
LONG_PERIOD, SHORT_PERIOD = 10.0, 2.0
BACKOFF = 300.0
LONG_OUTAGE = 240.0
SOAK = [pytest.mark.soak, pytest.mark.timeout(600)]


@pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed")
@pytest.mark.parametrize(
    "sampling, period, outage, backoff, patience",
    [
        # The pauses between attempts are longer than the patience, as they are after a long outage. Whether two periods
        # suffice is measured over long ones only: on a busy machine, short ones are too short.
        pytest.param("newscast", SHORT_PERIOD, 4.0, BACKOFF, TIMEOUT, id="short"),
        pytest.param("newscast", LONG_PERIOD, LONG_OUTAGE, 1.0, 2 * LONG_PERIOD, id="long", marks=SOAK),
        pytest.param("static", LONG_PERIOD, LONG_OUTAGE, 1.0, 2 * LONG_PERIOD, id="long-static", marks=SOAK),
    ],
)
def test_devices_reconnect_within_two_periods(
    tmp_path: Path, sampling: str, period: float, outage: float, backoff: float, patience: float
) -> None:
    fleet: Fleet = new_fleet(tmp_path / "fleet")
    devices = [new_device(fleet, tmp_path / f"d{i}", seed=i) for i in range(AGENTS)]
    with ExitStack() as stack:
        broker = stack.enter_context(Broker(tmp_path / "broker"))
        for device in devices:
            device.configure(
                [other.entry(address="mqtt:main") for other in devices if other is not device],
                learner={"steps": 10_000, "period": period, "longest_period": period},
                transport={
                    "use": ["mqtt"],
                    "mqtt": {"url": broker.url},
                    "timeout": 10.0,
                    "backoff": backoff,
                    "backoff_max": BACKOFF,
                },
                membership={"sampling": sampling},
            )
        agents = [stack.enter_context(AgentProcess(device)).ready() for device in devices]
        until(lambda: all(map(received_count, agents)), "they have met", 120.0)
        broker.kill()
        time.sleep(outage)  # the length of the outage matters
        before = [received_count(agent) for agent in agents]
        broker.start()
        began = time.monotonic()
        until(
            lambda: all(received_count(agent) > count for agent, count in zip(agents, before, strict=True)),
            "every device has received something",
            patience,
        )
        seconds_to_reconnect = time.monotonic() - began
        until(lambda: not any(map(has_failing_links, agents)), "every link delivers", patience - seconds_to_reconnect)
        total = time.monotonic() - began
        print(
            f"{sampling}, outage {outage:g} s: messages after {seconds_to_reconnect:.1f} s, links after {total:.1f} s"
        )
        assert [agent.end() for agent in agents] == [0] * AGENTS


def received_count(agent: AgentProcess) -> int:
    """Return the number of messages that the agent has received; 0 until it has also sent some."""
    traffic = agent.status()["traffic"]
    return int(traffic["received"]) if traffic["messages"] else 0


def has_failing_links(agent: AgentProcess) -> bool:
    """Return whether one of the agent's links fails to deliver, or the agent has no links."""
    peers = agent.status()["peers"]
    return not peers or any(peer["failures_in_a_row"] for peer in peers)
