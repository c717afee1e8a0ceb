"""End of a day: logged once, at midnight UTC, and a clock that is set is detected."""

import asyncio

import pytest
from sottovoce.days import DAY, NOT_BEFORE, last_complete_day
from sottovoce.node.waits import DayWatch, Waits

from tests.support.waiting import let_others_run

FIRST = int(NOT_BEFORE // DAY) + 10


class Wall:
    """A wall clock, and the reported events."""

    def __init__(self, day: float) -> None:
        self.now = day * DAY
        self.told: list[int] = []

    async def tell(self, day: int) -> None:
        self.told.append(day)


def look(watch: DayWatch, wall: Wall) -> float:
    return asyncio.run(watch.report_ended_day(wall.tell))


def test_a_day_ends_at_midnight() -> None:
    assert last_complete_day(FIRST * DAY) == FIRST - 1
    assert last_complete_day((FIRST + 1) * DAY - 1e-3) == FIRST - 1
    assert last_complete_day(NOT_BEFORE - 1) is None


def test_each_day_is_reported_once_and_the_last_wait_ends_at_midnight() -> None:
    wall = Wall(FIRST + 0.5)
    watch = DayWatch((FIRST, FIRST + 2), lambda: wall.now, Waits())
    assert look(watch, wall) == 10.0
    wall.now = (FIRST + 1) * DAY - 7.0
    assert look(watch, wall) == pytest.approx(7.0)
    assert wall.told == []
    for day in (FIRST + 1, FIRST + 1.2, FIRST + 2, FIRST + 3, FIRST + 400):
        wall.now = day * DAY
        look(watch, wall)
    assert wall.told == [FIRST, FIRST + 1, FIRST + 2], "nothing beyond the last permitted day"


def test_a_corrected_clock_is_reported_again() -> None:
    wall = Wall(FIRST + 400)
    watch = DayWatch((FIRST, FIRST + 1000), lambda: wall.now, Waits())
    look(watch, wall)
    wall.now = 0.0
    look(watch, wall)
    wall.now = (FIRST + 5) * DAY
    look(watch, wall)
    assert wall.told == [FIRST + 399, FIRST + 4]


def test_the_wait_has_a_reason_and_stops_at_once() -> None:
    async def collect_waits() -> list[dict[str, str | float | bool]]:
        wall, waits, stopping = Wall(FIRST + 0.5), Waits(), asyncio.Event()
        running = asyncio.create_task(DayWatch((FIRST, FIRST), lambda: wall.now, waits).run(stopping, wall.tell))
        await let_others_run(5)  # until it waits
        document = waits.to_dict()
        stopping.set()
        await running
        return document

    (wait,) = asyncio.run(collect_waits())
    assert (wait["name"], wait["repeats"]) == ("day", True)
