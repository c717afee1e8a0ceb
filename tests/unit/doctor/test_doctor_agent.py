"""Problems of a running agent."""

from copy import deepcopy
from typing import Any

import pytest
from sottovoce.doctor import Level
from sottovoce.doctor.device import agent
from sottovoce.errors import ExitCode

from tests.support.devices import Device
from tests.support.patients import make_subject, worst_finding

_WELL: dict[str, Any] = {
    "state": "learning",
    "cycle": 3,
    "peers": [{"failures_in_a_row": 0, "last_failure": ""}],
    "resources": {"rss_mib": 78.2},
    "transport": {"trouble": "", "duplicates": 0},
    "task": {"digest": "00", "others": []},
    "membership": {"sampling": "newscast", "duplicates": 0},
    "waiting": [{"name": "timer:cycle", "reason": "the next cycle", "since_s": 9000.0}],
}


def test_a_healthy_agent(device: Device) -> None:
    assert worst_finding(agent(make_subject(device, status=_WELL))).level is Level.OK


@pytest.mark.parametrize(
    "part, change, code, words",
    [
        ("transport", {"trouble": "the broker is away"}, ExitCode.NETWORK, "the broker is away"),
        ("transport", {"duplicates": 2}, ExitCode.IDENTITY, "another device"),
        ("membership", {"duplicates": 1}, ExitCode.IDENTITY, "another device"),
        (
            "task",
            {"others": [{"digest": "11", "devices": 3, "differences": ["learner.clip 1 where this device has 2"]}]},
            0,
            "3 devices, because their task differs: learner.clip 1 where",
        ),
        ("peers", [{"failures_in_a_row": 4, "last_failure": "peer p at a: no answer"}], 0, "peer p at a"),
        ("waiting", [{"name": "vault", "reason": "the vault", "since_s": 900.0}], 0, "15 minutes"),
    ],
)
def test_an_agent_with_problems(device: Device, part: str, change: Any, code: int, words: str) -> None:
    status = deepcopy(_WELL)
    status[part] = {**status[part], **change} if isinstance(change, dict) else change
    finding = worst_finding(agent(make_subject(device, status=status)))
    assert (finding.code, words in finding.what) == (code, True)


def test_a_missing_agent_and_a_killed_one(device: Device) -> None:
    assert worst_finding(agent(make_subject(device))).what == "no agent is running"
    (device.state / "agent.sock").touch()
    assert "the agent's socket exists" in worst_finding(agent(make_subject(device))).what
