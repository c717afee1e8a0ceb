"""Unreachable peer that sends a message: the agent contacts it at once, whatever is left of the pause."""

from pathlib import Path

from sottovoce.identity import Fleet

from tests.support.devices import new_device
from tests.support.processes import AgentProcess
from tests.support.waiting import until

PAUSE = 3000.0  # seconds; full jitter takes at least a tenth of it


def test_a_returning_peer_does_not_wait_for_the_pause_to_end(fleet: Fleet, tmp_path: Path) -> None:
    one, other = (new_device(fleet, tmp_path / name) for name in ("one", "other"))
    slow = {"backoff": PAUSE, "backoff_max": PAUSE}
    one.configure([other.entry()], transport=slow, ledger={"alone": True})
    other.configure([one.entry()], transport=slow, ledger={"alone": True})
    with AgentProcess(one).ready() as waits:
        until(
            lambda: [peer for peer in waits.status()["peers"] if peer["failures_in_a_row"]], "it has failed, and pauses"
        )
        with AgentProcess(other).ready() as back:
            until(lambda: back.status()["traffic"]["received"] > 2, "shares arrive")
            assert not any(peer["failures_in_a_row"] for peer in waits.status()["peers"])
