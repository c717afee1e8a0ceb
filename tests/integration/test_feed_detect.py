"""`sottovoce feed detect` with a real Mosquitto."""

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from sottovoce.errors import ExitCode

from tests.support.home import Bystander
from tests.support.mosquitto import Broker
from tests.support.processes import sottovoce

pytestmark = pytest.mark.process

PLUG = "tele/tasmota_4F2A1C/SENSOR"
LIGHTS = 2000
"""More retained messages than the client's queue holds."""


def plug(kwh: float) -> str:
    return json.dumps({"Time": "2026-05-28T22:57:38", "ENERGY": {"Total": kwh, "Power": 600}})


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "broker") as running:
        yield running


def test_the_printed_table_fits_and_shows_no_reading(broker: Broker, tmp_path: Path) -> None:
    with Bystander(broker) as bystander:
        for number in range(LIGHTS):
            bystander.publish(f"zigbee2mqtt/light {number}", '{"brightness":120,"state":"ON"}', retain=True)
        bystander.publish(PLUG, plug(310.123), retain=True)
    result = sottovoce("feed", "detect", "--broker", broker.url, "--seconds", "8")  # a busy machine hears 500 a second
    assert result.returncode == ExitCode.DONE, result.stderr
    (meter,) = tomllib.loads(result.stdout)["feed"]["meters"]
    assert (meter["format"], meter["names"]) == ("tasmota", {"device": "tasmota_4F2A1C"})
    assert "310" not in result.stdout + result.stderr, "the output is no terminal"
    assert f"{LIGHTS + 1} messages" in result.stdout
    config = tmp_path / "agent.toml"
    config.write_text(f'agent.state = "state"\ndata.source = "feed:{broker.url}"\n{result.stdout}')
    assert PLUG in sottovoce("feed", "check", "--config", config).stdout


def test_nothing_heard_and_nobody_there(broker: Broker) -> None:
    silent = sottovoce("feed", "detect", "--broker", broker.url, "--seconds", "1")
    assert (silent.returncode, "no message arrived" in silent.stderr) == (ExitCode.DATA, True)
    broker.kill()
    absent = sottovoce("feed", "detect", "--broker", broker.url, "--seconds", "1")
    assert absent.returncode == ExitCode.NETWORK, absent.stderr
    assert "broker" in absent.stderr


def test_a_user_who_may_not_read_everything(tmp_path: Path) -> None:
    """Mosquitto grants the subscription to `#`, and delivers only the topics that this user may read."""
    rules = tmp_path / "rules"
    rules.write_text("topic readwrite tele/#\n")
    rules.chmod(0o600)
    with Broker(tmp_path / "broker", config_lines=[f"acl_file {rules}"]) as broker, Bystander(broker) as bystander:
        bystander.publish(PLUG, plug(310.123), retain=True)
        result = sottovoce("feed", "detect", "--broker", broker.url, "--seconds", "1")
    assert tomllib.loads(result.stdout)["feed"]["meters"][0]["format"] == "tasmota"
