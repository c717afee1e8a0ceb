"""Two real agents with nothing left to learn: both fall silent; one that restarts is heard, and stops as promptly."""

from pathlib import Path

from sottovoce.identity import Fleet

from tests.support.devices import new_device
from tests.support.processes import AgentProcess, running
from tests.support.waiting import until

PERIOD, SILENCE = 0.01, 5.0  # seconds


def test_agents_that_agree_fall_silent_and_one_that_starts_anew_is_heard(fleet: Fleet, tmp_path: Path) -> None:
    one, other = (new_device(fleet, tmp_path / name) for name in ("one", "other"))
    for device, peer in ((one, other), (other, one)):
        device.configure([peer.entry()], learner={"steps": 3, "period": PERIOD, "longest_period": 3600.0})
    with running(one, other) as (first, second):
        until(lambda: min(_pause(first), _pause(second)) > SILENCE, "both are silent")
        cycle, received = first.status()["cycle"], second.status()["traffic"]["received"]
        assert first.end() == 0
        with AgentProcess(one) as again:
            until(lambda: again.ready().status()["cycle"] > cycle + 3, "a start is at work at once")
            assert again.status()["state"] == "mixing"
            until(lambda: second.status()["traffic"]["received"] > received + 3, "and is heard")
            until(lambda: _pause(again) > SILENCE, "it falls silent again")
            assert again.end() == 0


def _pause(agent: AgentProcess) -> float:
    """Seconds from its last cycle to its next."""
    waits = [wait["since_s"] + wait["left_s"] for wait in agent.status()["waiting"] if wait["name"] == "timer:cycle"]
    return float(max(waits, default=0.0))
