"""Unreachable peer that sends a message: the agent contacts it at once, whatever is left of the pause."""

from pathlib import Path

import pytest
from sottovoce_operator.fleet import Fleet

from tests.support.devices import new_device
from tests.support.processes import AgentProcess
from tests.support.waiting import until

pytestmark = pytest.mark.process

PAUSE = 3000.0  # seconds; full jitter takes at least a tenth of it


def test_a_returning_peer_does_not_wait_for_the_pause_to_end(fleet: Fleet, tmp_path: Path) -> None:
    device_a, device_b = (new_device(fleet, tmp_path / name) for name in ("one", "other"))
    slow = {"backoff": PAUSE, "backoff_max": PAUSE}
    device_a.configure([device_b.entry()], transport=slow, ledger={"alone": True})
    device_b.configure([device_a.entry()], transport=slow, ledger={"alone": True})
    with AgentProcess(device_a).ready() as waiting_agent:
        until(
            lambda: [peer for peer in waiting_agent.status()["peers"] if peer["failures_in_a_row"]],
            "it has failed, and pauses",
        )
        with AgentProcess(device_b).ready() as returning_agent:
            until(lambda: returning_agent.status()["traffic"]["received"] > 2, "shares arrive")
            assert not any(peer["failures_in_a_row"] for peer in waiting_agent.status()["peers"])
