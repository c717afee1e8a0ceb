"""A ledger that has written enough for one day: the agent rests until the next and says so."""

from pathlib import Path

from sottovoce.identity import Fleet

from tests.support.books import spending
from tests.support.devices import new_device
from tests.support.processes import running
from tests.support.waiting import until

LIMIT = 2**20
MOST_A_RELEASE = 30 * (2 * 4096 + 24)  # bytes: the pages of a charge and of a release


def test_after_its_bytes_of_the_day_a_ledger_rests(fleet: Fleet, tmp_path: Path) -> None:
    """Had midnight passed meanwhile, it would go on to 400 steps."""
    device = new_device(fleet, tmp_path / "a")
    device.configure(learner={"steps": 400, "period": 0.01}, ledger={"alone": True, "bytes_per_day": LIMIT})
    with running(device) as (agent,):
        (wait,) = until(
            lambda: [wait for wait in agent.status()["waiting"] if wait["name"] == "wear"], "it has written enough"
        )
        assert "the next day, UTC" in wait["reason"]
        assert 0 < wait["left_s"] <= 86_400
        status = agent.status()
        assert LIMIT <= status["ledger"]["written_bytes_today"] < LIMIT + MOST_A_RELEASE
        assert status["ledger"]["bytes_per_day"] == LIMIT
        charged = spending(device).charges
        assert 5 < charged < 400
        assert spending(device).charges == charged
        assert agent.lines("ledger-rests")
        assert agent.end() == 0
    with running(device) as (agent,):
        until(lambda: spending(device).charges > charged, "a start begins at nothing")
        assert agent.end() == 0
