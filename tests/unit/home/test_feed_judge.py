"""Judgement of a counter's readings by those that follow: what is wrong is dropped, and what is right continues."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from sottovoce.errors import MessageRefused
from sottovoce_home.meters import Arrival, Meter, Source, Value

WINDOW, STEP = 1800, 10
BEGIN = 1_790_000_000 // 86_400 * 86_400
EDGE = BEGIN + 4 * WINDOW
KWH = Source("house", counter=True, json=False, factor=1000.0, values=(Value("t"),))
PHASES = replace(KWH, json=True, values=tuple(Value("t", (phase,)) for phase in "abc"))


class Feed:
    """A feed with one meter, whose process may restart.

    Attributes:
        windows: Wh by number of the window since BEGIN.
        refused: reasons of refusals, in order.
    """

    def __init__(self, source: Source = KWH) -> None:
        self._source = source
        self._meter = Meter(source, WINDOW)
        self.windows: dict[int, int] = {}
        self.refused: list[str] = []

    def say(self, at: float, payload: str) -> None:
        try:
            for window in self._meter.process(Arrival("t", payload.encode(), False, at - BEGIN + 1000, at)):
                self.windows[window.number - BEGIN // WINDOW] = window.wh
        except MessageRefused as refusal:
            self.refused.append(refusal.reason)

    def run(self, kwh: Callable[[float], float], begin: float, end: float, every: float = STEP) -> "Feed":
        """Say the counter's value regularly."""
        at = begin
        while at < end:
            self.say(at, f"{kwh(at):.3f}")
            at += every
        return self

    def restart(self) -> None:
        state = self._meter.state
        assert state is not None
        self._meter = Meter(self._source, WINDOW)
        self._meter.resume(state)

    @property
    def restarts(self) -> int:
        return self._meter.restarts


def kwh(at: float, watts: float = 1000.0, start: float = 9000.0) -> float:
    return start + (at - BEGIN) / 3_600_000 * watts


def within(begin: float, end: float, inside: Callable[[float], float]) -> Callable[[float], float]:
    """Return a counter that shows something else between two times."""
    return lambda at: inside(at) if begin <= at < end else kwh(at)


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(within(EDGE - 4, EDGE + 4, lambda at: kwh(at) + 5.0), id="a bit error at an edge"),
        pytest.param(within(EDGE - 4, EDGE + 4, lambda at: kwh(at) + 0.2), id="a plausible jump"),
        pytest.param(within(EDGE - 4, EDGE + 14, lambda at: kwh(at) + 0.2), id="two readings"),
        pytest.param(within(EDGE - 4, EDGE + 4, lambda at: kwh(at) - 0.99), id="an old state"),
        pytest.param(within(EDGE - 180, EDGE + 180, lambda at: kwh(at) - 0.03), id="a dip of six minutes"),
        pytest.param(within(EDGE - 100, EDGE + 100, lambda at: 0.0), id="zeros"),
        pytest.param(within(EDGE - 200, EDGE + 200, lambda at: kwh(at) - 8_000.0), id="another meter's count"),
        pytest.param(lambda at: kwh(at) - 0.01 * (at // STEP % 12 < 5), id="wobble"),
    ],
)
def test_what_the_next_readings_take_back_changes_nothing(broken: Callable[[float], float]) -> None:
    feed = Feed().run(broken, BEGIN, EDGE + 4 * WINDOW)
    assert set(feed.windows) == set(range(7))
    assert all(abs(wh - 500) <= 10 for wh in feed.windows.values())
    assert feed.restarts == 0


def test_a_new_count_begins_after_a_quarter_of_an_hour_and_loses_no_later_window() -> None:
    feed = Feed().run(lambda at: kwh(at) if at < EDGE + 900 else kwh(at, start=-1.0), BEGIN, EDGE + 4 * WINDOW)
    assert set(feed.windows) == {0, 1, 2, 3, 5, 6}
    assert set(feed.windows.values()) == {500}
    assert (feed.restarts, set(feed.refused)) == (1, {"fell"})


def test_time_does_not_make_a_jump_plausible() -> None:
    feed = Feed().run(lambda at: kwh(at) + 20.0 * (at >= EDGE), BEGIN, EDGE + 4 * WINDOW)
    assert set(feed.windows.values()) == {500}
    assert feed.restarts == 1


def test_a_value_that_does_not_rise_is_no_new_count() -> None:
    feed = Feed().run(within(EDGE - 1000, EDGE + 3000, lambda at: 5.0), BEGIN, EDGE + 4 * WINDOW)
    assert feed.restarts == 0
    assert set(feed.windows.values()) == {500}


def test_a_state_that_a_bridge_repeats_after_a_silence_is_no_reading() -> None:
    def bridge(at: float) -> float:
        return kwh(EDGE - 1200) if EDGE <= at < EDGE + 5 else kwh(at)

    feed = Feed().run(bridge, BEGIN, EDGE - 1195).run(bridge, EDGE, EDGE + 3 * WINDOW)
    assert set(feed.windows.values()) == {500}
    assert set(feed.windows) == {0, 1, 2, 5}


@pytest.mark.parametrize("start", [3.6, 0.5, 500.0])
def test_three_phases_that_are_0_for_a_while_count_as_before(start: float) -> None:
    feed = Feed(PHASES)
    for at in range(BEGIN, EDGE + 4 * WINDOW, STEP):
        each = 0.0 if abs(at - EDGE) <= 100 else kwh(at, 100.0, start)
        feed.say(at, json.dumps(dict.fromkeys("abc", each)))
    assert set(feed.windows) == set(range(7))
    assert all(abs(wh - 150) <= 1 for wh in feed.windows.values())


def test_one_phase_of_three_may_be_0_until_its_tool_has_recovered_it() -> None:
    feed = Feed(PHASES)
    for at in range(BEGIN, EDGE + 4 * WINDOW, STEP):
        values = dict.fromkeys("abc", kwh(at, 100.0, 500.0))
        feed.say(at, json.dumps({**values, "b": 0.0} if abs(at - EDGE) < 1200 else values))
    assert set(feed.windows.values()) == {150}


def test_a_counter_in_wh_that_is_declared_in_kwh_yields_no_window() -> None:
    feed = Feed(replace(KWH, factor=1e6)).run(kwh, BEGIN, EDGE)
    assert feed.windows == {}
    assert "jumped" in feed.refused


@pytest.mark.parametrize("pause", [12, 120])
def test_a_restart_costs_no_window(pause: float) -> None:
    feed = Feed().run(kwh, BEGIN, EDGE - 6)
    feed.restart()
    feed.run(kwh, EDGE - 6 + pause, EDGE + 3 * WINDOW)
    assert feed.windows == dict.fromkeys(range(6), 500)


def test_a_restart_inside_a_window_may_take_long() -> None:
    feed = Feed().run(kwh, BEGIN, EDGE + 60)
    feed.restart()
    feed.run(kwh, EDGE + 1500, EDGE + 3 * WINDOW)
    assert feed.windows == dict.fromkeys(range(6), 500)


def says(wrong: dict[int, float], missing: int | None = None) -> "Feed":
    """Return a feed of a message a minute, among which others differ from the counter by some kWh.

    Args:
        wrong: differences, by seconds since the edge.
        missing: seconds since the edge of a message that does not arrive.
    """
    feed = Feed()
    true = {at - EDGE: 0.0 for at in range(BEGIN - 30, EDGE + 4 * WINDOW, 60) if at - EDGE != missing}
    for second, difference in sorted({**true, **wrong}.items()):
        feed.say(EDGE + second, f"{kwh(EDGE + second) + difference:.4f}")
    return feed


def test_a_wrong_reading_is_not_continued_because_the_one_before_it_was_wrong_by_little() -> None:
    """The first is above the next true ones, so that only the fall by 1 kWh seems to go on."""
    feed = says({-70: 0.06, -15: -1.0}, missing=-30)
    assert feed.windows == dict.fromkeys(range(7), 500)


def test_a_wrong_reading_is_not_continued_while_another_count_begins() -> None:
    """Two wrong readings confirm each other, the true count begins again, and one of its values is slightly wrong."""
    feed = says({-200: 0.04, -140: 0.54, -80: -7.0, 380: 0.01})
    assert set(feed.windows.values()) == {500}
    assert len(feed.windows) >= 5


@pytest.mark.parametrize("every", [900, 1200, 1800])
def test_rare_messages_make_windows(every: int) -> None:
    feed = Feed().run(kwh, BEGIN + 7, EDGE + 8 * WINDOW, every)
    assert len(feed.windows) >= 7
    assert set(feed.windows.values()) <= {499, 500, 501}


def test_a_message_every_half_hour_may_be_late() -> None:
    feed = Feed()
    for n in range(20):
        at = BEGIN + 1800 * n + 7 + n * n % 5
        feed.say(at, f"{kwh(at):.3f}")
    assert len(feed.windows) >= 15
    assert set(feed.windows.values()) <= {499, 500, 501}


def test_a_declared_gap_is_kept() -> None:
    assert not Feed(replace(KWH, gap_is_set=True)).run(kwh, BEGIN + 7, EDGE + 8 * WINDOW, 900).windows
