"""Meters that keep sending, and agents that keep learning: each completed day is learnt and pays for itself."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sottovoce.data.feed import Window
from sottovoce.days import DAY
from sottovoce.privacy.accounting.event_parser import parse_event
from sottovoce.privacy.accounting.units import Units
from sottovoce.privacy.vault import Budget, Ledger
from sottovoce_home.store import WindowStore
from sottovoce_operator.fleet import Fleet
from sottovoce_operator.fleet.join import join

from tests.support.devices import Device, free_port
from tests.support.loads import draw_half_hours
from tests.support.processes import AgentProcess, sottovoce
from tests.support.shifted_clock import ShiftedClock
from tests.support.waiting import until

pytestmark = pytest.mark.process

BEFORE, AFTER, STEPS = 10, 6, 8
TODAY = int(time.time() // DAY) + 1  # a clock that is ahead leaves gRPC deadlines in the future
FIRST = TODAY - BEFORE


class Home:
    """A device whose meter keeps sending.

    Attributes:
        device: with a ledger by the day.
    """

    def __init__(self, fleet: Fleet, directory: Path, seed: int) -> None:
        identity = join(fleet, directory, Budget(2.0, 1e-5, "window", "add-remove"))
        self.device = Device(directory, identity, free_port())
        self._wh = draw_half_hours(1, BEFORE + AFTER, seed, missing=0)[0].tolist()
        self.store = WindowStore(self.windows, 1800, keep_days=400)

    @property
    def windows(self) -> Path:
        return self.device.state.with_suffix(".windows.db")

    def keep(self, first: int, last: int) -> None:
        """Store the meter's readings for these days, both included."""
        numbers = range(first * 48, (last + 1) * 48)
        self.store.write([Window("house", number, self._wh[number - FIRST * 48]) for number in numbers], {})

    def configure(self, other: "Home", **learner: Any) -> None:
        self.device.configure(
            [other.device.entry()],
            data={
                "source": "feed:mqtt://127.0.0.1:1883",
                "features": 10,
                "classes": 1,
                "expected_records": 44,
                "transform": "none",
                "windows": [FIRST, FIRST + 3650],
            },
            learner={"model": "ridge", "period": 0.1, "steps": STEPS, **learner},
            privacy={"unit": "window"},
            feed={"store": str(self.windows)},
        )

    def charged(self) -> list[Units]:
        """Return the units charged for each release, in order."""
        ledger = Ledger.read(self.device.ledger)
        events = [parse_event(terms) for _, terms, _ in ledger.charges()]
        ledger.close()
        return [event.units for event in events]


def steps(agent: AgentProcess) -> int:
    return int(agent.status()["steps_done"])


@pytest.mark.timeout(300)
def test_a_day_is_learnt_once_it_has_ended_without_a_restart(fleet: Fleet, tmp_path: Path) -> None:
    clock = ShiftedClock(tmp_path / "clock")
    clock.set((TODAY + 0.5) * DAY - time.time())  # noon, so the machine's own midnight does not intervene
    homes = [Home(fleet, tmp_path / f"d{i}", i) for i in range(2)]
    for home, other in zip(homes, reversed(homes), strict=True):
        home.configure(other)
        home.keep(FIRST, TODAY - 1)
    with (
        AgentProcess(homes[0].device, clock.within) as one,
        AgentProcess(homes[1].device, clock.within) as two,
    ):
        agents = [one.ready(), two.ready()]
        for agent in agents:
            until(lambda agent=agent: steps(agent) == STEPS // 2, "half of the steps that the days can pay for")  # type: ignore[misc]
            assert agent.status()["state"] == "mixing"
        for home in homes:
            home.keep(TODAY, TODAY)
        clock.advance(DAY)
        for agent in agents:
            until(lambda agent=agent: steps(agent) == STEPS // 2 + 1, "the day has ended")  # type: ignore[misc]
        for home in homes:
            home.keep(TODAY + 1, TODAY + AFTER - 1)
        clock.advance((AFTER - 1) * DAY)
        for agent in agents:
            until(lambda agent=agent: steps(agent) == STEPS // 2 + 2, "it learns from missed days")  # type: ignore[misc]
            assert agent.status()["privacy"]["spent_epsilon"] < 2.0
            words = sottovoce("agent", "status", "--state", agent.device.state).stdout
            assert f"learnt from data up to {datetime.fromtimestamp((TODAY + AFTER - 1) * DAY, UTC).date()}" in words, (
                words
            )
            assert agent.end() == 0
            assert "Traceback" not in agent.log()
    at_once = [Units(((FIRST, TODAY - 1),))] * (STEPS // 2)
    for home in homes:
        charged = home.charged()
        assert charged == [*at_once, Units(((FIRST, TODAY),)), Units(((FIRST, TODAY + AFTER - 1),))]
        ledger = Ledger.read(home.device.ledger)
        for day in range(FIRST, TODAY + AFTER):
            assert 0 < ledger.epsilon_spent(Units(((day, day),))) <= 2.0
        assert ledger.epsilon_spent(Units(((TODAY + AFTER, TODAY + AFTER),))) == 0, "tomorrow has not been charged"
        ledger.close()
    before = homes[0].charged()
    with AgentProcess(homes[0].device, clock.within) as restarted:
        until(lambda: restarted.ready().status()["cycle"] > 0, "it continues")
        assert restarted.end() == 0
    assert homes[0].charged() == before, "a restart on the same day sends no query"
