"""What the owner is told about a meter's day: its energy, how it reports, and what looks wrong."""

from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

import pytest
from sottovoce_home.listener import Listener
from sottovoce_home.meter_days import MeterDay, read_meter_days
from sottovoce_home.meters import Meter, Source, Value
from sottovoce_home.meters.observation import Observation
from sottovoce_home.store import WindowStore

DAY = 86_400
BEGIN = 1_790_000_000 // DAY * DAY
COUNTER = Source("house", counter=True, json=False, factor=1000.0, values=(Value("t"),))


def kwh(at: float) -> float:
    return 9000.0 + (at - BEGIN) / 3600 * 0.35


def yesterday(
    directory: Path, monkeypatch: pytest.MonkeyPatch, source: Source, readings: Iterable[tuple[float, float]]
) -> MeterDay:
    """Pass (time, value) pairs to a feed, and return what the owner is told on the next day."""

    class Time:
        now = float(BEGIN)

        def time(self) -> float:
            return self.now

        def monotonic(self) -> float:
            return self.now - BEGIN + 1000

    clock = Time()
    monkeypatch.setattr("sottovoce_home.listener.time", clock)
    with closing(WindowStore(directory / "w.db", 1800, 400)) as store:
        listener = Listener([Meter(source, 1800)], store)
        for at, value in readings:
            clock.now = at
            listener.receive("t", f"{value:.3f}".encode(), retained=False)
            listener.save_if_due(idle=True)
        listener.save()
        (day,) = read_meter_days(directory / "w.db", BEGIN + DAY + 7200)
    return day


def every(seconds: float, value: Callable[[float], float]) -> Iterable[tuple[float, float]]:
    count = int((DAY + 4000) / seconds)
    return ((BEGIN + seconds * n, value(BEGIN + seconds * n)) for n in range(count))


def test_an_ordinary_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    day = yesterday(tmp_path, monkeypatch, COUNTER, every(60, kwh))
    assert day.describe() == "yesterday 8.4 kWh in 48 windows; messages every 1 min; step 1 Wh"
    assert list(day.questions()) == []


@pytest.mark.parametrize(
    "source, readings, words",
    [
        pytest.param(
            Source("house", counter=True, json=False, factor=1e6, values=(Value("t"),)),
            every(60, lambda at: kwh(at) + 0.0001),
            ["175 kWh in 30 min", "the unit Wh?"],
            id="Wh declared as kWh",
        ),
        pytest.param(
            Source("house", counter=True, json=False, factor=1.0, values=(Value("t"),)),
            every(60, kwh),
            ["the unit kWh?"],
            id="kWh declared as Wh",
        ),
        pytest.param(
            Source("house", counter=False, json=False, factor=1.0, values=(Value("t"),)),
            every(60, lambda at: 0.35 + at % 3600 / 7200),
            ["the unit kW?"],
            id="kW declared as W",
        ),
        pytest.param(COUNTER, every(60, lambda at: 9000.0), ["no change for", "stuck?"], id="stuck"),
        pytest.param(
            COUNTER,
            [(BEGIN + at, 9000 + 0.173 * n) for n, at in enumerate((0, 3000, 9000, 30_000, 50_000, 55_000, 83_000))],
            ["messages every", "windows of 48"],
            id="rare",
        ),
        pytest.param(COUNTER, every(60, lambda at: int(kwh(at))), ["step 1 kWh"], id="whole kWh"),
        pytest.param(COUNTER, every(60, lambda at: kwh(at) - 0.03 * (at % 720 < 300)), ["fell"], id="wobble"),
    ],
)
def test_what_looks_wrong_is_asked(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: Source,
    readings: Iterable[tuple[float, float]],
    words: list[str],
) -> None:
    questions = " | ".join(yesterday(tmp_path, monkeypatch, source, readings).questions())
    assert all(word in questions for word in words), questions


def test_a_day_s_facts_begin_at_midnight() -> None:
    observation = Observation(is_counter=True)
    for n in range(-5, 7):
        observation.add(BEGIN + 600.0 * n, 1000.0 + 15 * n)
    assert {day - BEGIN // DAY: facts.readings for day, facts in observation.days.items()} == {-1: 5, 0: 7}
    assert observation.days[BEGIN // DAY].step == 15


def test_the_longer_part_of_a_day_is_kept_after_a_restart(tmp_path: Path) -> None:
    for count in (9, 3):
        observation = Observation(is_counter=True)
        for n in range(count):
            observation.add(BEGIN + 600.0 * n, 1000.0 + 15 * n)
        with closing(WindowStore(tmp_path / "w.db", 1800, 400)) as store:
            store.write([], {}, observed={("house", BEGIN // DAY): observation.days[BEGIN // DAY]})
    (day,) = read_meter_days(tmp_path / "w.db", BEGIN + 9000)
    assert (day.facts.readings, day.is_over) == (9, False)
