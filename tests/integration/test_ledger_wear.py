"""Ledger that has used its daily write allowance: the agent slows down, and reports it."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from sottovoce_operator.fleet import Fleet

from tests.support.books import spending
from tests.support.devices import new_device
from tests.support.processes import running
from tests.support.waiting import until

pytestmark = pytest.mark.process

LIMIT = 2**20
MAX_A_RELEASE = 30 * (2 * 4096 + 24)  # bytes: a charge's and a release's pages


def test_a_ledger_over_its_write_allowance_slows_down(fleet: Fleet, tmp_path: Path) -> None:
    device = new_device(fleet, tmp_path / "a")
    device.configure(learner={"steps": 400, "period": 0.01}, ledger={"alone": True, "bytes_per_day": LIMIT})
    with running(device) as (agent,):
        (wait,) = until(
            lambda: [wait for wait in agent.status()["waiting"] if wait["name"] == "wear"], "it has written enough"
        )
        assert "ledger.bytes_per_day" in wait["reason"]
        assert 0 < wait["left_s"] <= 86_400
        status = agent.status()
        assert LIMIT / 4 <= status["ledger"]["written_bytes_today"] < LIMIT + MAX_A_RELEASE
        assert status["ledger"]["bytes_per_day"] == LIMIT
        assert status["state"] == "resting"
        assert datetime.fromisoformat(status["resting_until"]) > datetime.now(UTC)
        assert 2 < spending(device).charges < 400
        assert len(agent.lines("ledger-rests")) == 1
        charged = spending(device).charges
        assert agent.end() == 0
    with running(device) as (agent,):
        until(lambda: agent.status()["state"] == "resting", "the count continues after a restart")
        assert agent.status()["ledger"]["written_bytes_today"] >= LIMIT / 4
        assert spending(device).charges <= charged + 2
        assert agent.end() == 0
