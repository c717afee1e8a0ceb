"""Meter: events after which earlier and later readings cannot be compared."""

from sottovoce.data.feed import Window
from sottovoce.errors import MessageRefused
from sottovoce_home.meters import Arrival, Meter, Source, Value

NOON = 1_780_000_200.0  # a window begins
FIRST = int(NOON // 1800)
TOPIC = "home/energy"


def meter() -> Meter:
    return Meter(Source("house", counter=True, json=False, factor=1.0, values=(Value(TOPIC),)), 1800)


def read(meter: Meter, monotonic: float, wh: float, *, clock: float = NOON) -> list[Window]:
    """Take a reading this many seconds after NOON by the monotonic clock; the wall clock then began at `clock`."""
    try:
        return meter.process(Arrival(TOPIC, str(wh).encode(), False, monotonic, clock + monotonic))
    except MessageRefused:
        return []


def test_a_clock_change_leaves_the_window_missing() -> None:
    house = meter()
    assert not read(house, 0, 1000)
    assert not read(house, 300, 1100)
    assert not read(house, 310, 1100, clock=NOON + 1500), "the energy in between belongs to no known window"
    assert read(house, 2110, 1400, clock=NOON + 1500) == []
    for n in range(1, 7):
        result = read(house, 2110 + 300 * n, 1400 + 50 * n, clock=NOON + 1500)
        assert [window.number for window in result] in ([], [FIRST + 2])


def test_after_a_clock_is_set_back_windows_are_complete_again() -> None:
    house = meter()
    results = [window for n in range(14) for window in read(house, 300 * n, 1000 + 50 * n)]
    assert [window.number for window in results] == [FIRST, FIRST + 1]
    back = [window for n in range(14, 26) for window in read(house, 300 * n, 1000 + 50 * n, clock=NOON - 3600)]
    assert back == [Window("house", FIRST + 1, 300)], "the store keeps its existing window"


def test_after_a_jump_the_skipped_windows_are_missing() -> None:
    house = meter()
    assert not read(house, 0, 1000)
    results = [window for n in range(1, 14) for window in read(house, 300 * n, 9_000_000 + 50 * n)]
    assert house.refused == {"jumped": 3}
    assert results == [Window("house", FIRST + 1, 300)], "the jump is not consumption"
