"""Home Assistant switch with which the owner decides on the fleet's task."""

import json
from pathlib import Path
from typing import Any

import pytest
from sottovoce_operator.fleet import open_fleet

from tests.integration.test_fleet_tasks import CLIPD2P, GOLF, LIFE, RELATION, at, authority, list_waits, propose
from tests.support.devices import Device, new_device
from tests.support.home import Bystander, FeedProcess
from tests.support.mosquitto import Broker
from tests.support.processes import running
from tests.support.waiting import until

pytestmark = pytest.mark.process

__all__ = ["authority"]


@pytest.fixture
def device(authority: Path, tmp_path: Path) -> Device:
    (tmp_path / "policy.toml").write_text('approve = "ask"\n')
    return new_device(open_fleet(authority), tmp_path / "a", epsilon=LIFE, neighbouring="replace-one")


def configured(device: Device, tmp_path: Path, broker: Broker, *, tasks: bool = True) -> Path:
    device.configure(
        privacy={"epsilon": LIFE, **RELATION},
        vault={"tasks": "signed", "policy": str(tmp_path / "policy.toml")},
        feed={
            "broker": broker.url,
            "store": str(tmp_path / "windows.db"),
            "home_assistant": {"enabled": True, "period": 1, "tasks": tasks},
        },
    )
    return device.config


class RevealCommitment:
    """Last values sent to Home Assistant."""

    def __init__(self, bystander: Bystander) -> None:
        self._bystander = bystander

    def _last(self, begins: str, ends: str) -> dict[str, Any]:
        for topic, payload, _ in reversed(self._bystander.heard):
            if topic.startswith(begins) and topic.endswith(ends):
                result: dict[str, Any] = json.loads(payload)
                return result
        return {}

    @property
    def state(self) -> dict[str, Any]:
        return self._last("sottovoce/home/", "/state")

    @property
    def switch(self) -> dict[str, Any]:
        result: dict[str, Any] = (
            self._last("homeassistant/device/", "/config").get("components", {}).get("takes_part", {})
        )
        return result


@pytest.mark.timeout(300)
def test_a_switch_applies_to_the_task_that_it_was_shown_for(device: Device, authority: Path, tmp_path: Path) -> None:
    with Broker(tmp_path / "broker") as broker, Bystander(broker) as bystander:
        panel, config = RevealCommitment(bystander), configured(device, tmp_path, broker)
        with running(device) as (agent,), FeedProcess(config) as feed:
            until(lambda: panel.state.get("task") == "none", f"no task yet; it said:\n{feed.log()}")
            assert panel.switch == {}
            propose(tmp_path, authority, CLIPD2P, device)
            asks = "1: kinds of load (the task awaits the owner's approval: sottovoce agent task approve 1)"
            until(lambda: panel.state.get("task") == asks and bool(panel.switch), "the task is shown")
            assert panel.state["takes_part"] == "OFF"
            old = panel.switch
            for wrong in ("take part in 2", "ON", "\xff"):
                bystander.publish(old["command_topic"], wrong)
            until(lambda: feed.log().count("switch-not-heard") == 3, "other commands are ignored")
            assert "fleet-task" in list_waits(agent)
            bystander.publish(old["command_topic"], old["payload_on"])
            until(lambda: at(agent, 1, "clipd2p"), "the task is activated")
            until(lambda: panel.state.get("takes_part") == "ON", "the switch is on")
            propose(tmp_path, authority, GOLF, device)
            until(lambda: panel.switch.get("payload_on") == "take part in 2", "a newer task has a new switch")
            assert panel.state["takes_part"] in ("OFF", "ON")
            bystander.publish(old["command_topic"], old["payload_on"])
            until(lambda: feed.log().count("switch-not-heard") == 4, "the old switch has no effect")
            bystander.publish(old["command_topic"], panel.switch["payload_off"], retain=True)
            until(lambda: "the owner has refused the task" in (panel.state.get("task") or ""), "refused")
            assert at(agent, 1, "clipd2p")
            assert feed.end() == 0
        (device.state / "consent").unlink()
        with running(device), FeedProcess(config) as feed:
            asks = "the task awaits the owner's approval"
            until(lambda: asks in (panel.state.get("task") or ""), "a retained switch message has no effect")
            assert feed.end() == 0


def test_a_feed_that_cannot_read_the_task_reports_it(device: Device, tmp_path: Path) -> None:
    with Broker(tmp_path / "broker") as broker:
        config = configured(device, tmp_path, broker)
        (device.state / "identity" / "ca.pem").unlink()
        with FeedProcess(config) as feed:
            assert feed.process.wait(60) != 0
            assert "feed.home_assistant.tasks: " in feed.log()
            assert "run the feed as the agent's user, or remove this key" in feed.log()
