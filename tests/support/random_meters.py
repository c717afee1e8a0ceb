"""Random meters with the faults of real ones, their true energy, and the windows that a feed stores for them."""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from sottovoce.errors import MessageRefused
from sottovoce_home.meters import Arrival, Meter, Source, Value

WINDOW = 1800
DAY = 86_400
BEGIN = 1_790_000_000 // DAY * DAY
_DAYS = 2
_LARGEST_WOBBLE = 30.0
"""Wh; owners report counters that fall by up to 0.03 kWh."""


@dataclass(frozen=True, slots=True)
class Habits:
    """What one random meter and its home do.

    Attributes:
        cadence: seconds between two messages.
        step: smallest step of the counter, in Wh.
        base: power at all times, in W; `swing` is the part by which it varies over the day, from 0 to 1.
        start: counter at the beginning, in Wh.
        wobble: number of steps by which the counter sometimes falls, for `wobble_messages` of every 12 messages.
        spikes: times of single readings that are wrong by some Wh.
        outages: begin and end of times without messages.
        reset: time at which the counter begins anew; infinite if never.
        zeros: begin and end of a time in which the counter shows 0.
        restarts: times at which the feed restarts.
        late: whether messages carry their measurement time, and by how many seconds they arrive late.
        clock_faults: times at which this device's clock is set, and by how many seconds.
    """

    cadence: float
    step: float
    base: float
    swing: float
    start: float
    wobble: int = 0
    wobble_messages: int = 0
    spikes: tuple[tuple[float, float], ...] = ()
    outages: tuple[tuple[float, float], ...] = ()
    reset: float = math.inf
    zeros: tuple[float, float] = (math.inf, math.inf)
    restarts: tuple[float, ...] = ()
    late: float | None = None
    clock_faults: tuple[tuple[float, float], ...] = ()

    def energy(self, at: float) -> float:
        """Return the energy since BEGIN, in Wh."""
        hours, turn = (at - BEGIN) / 3600, 2 * math.pi / 24
        return self.base * (hours + self.swing * (1 - math.cos(turn * hours)) / turn)


def random_habits(rng: random.Random) -> Habits:
    """Return habits of which each meter has some."""

    def moments(most: int) -> list[float]:
        return sorted(BEGIN + rng.uniform(0.02, _DAYS - 0.05) * DAY for _ in range(rng.randint(0, most)))

    cadence = math.exp(rng.uniform(math.log(1), math.log(3600)))
    step = math.exp(rng.uniform(math.log(1), math.log(1000)))
    habits = Habits(
        cadence=round(cadence) if rng.random() < 0.7 else cadence,
        step=round(step) if rng.random() < 0.5 else 10.0 ** round(math.log10(step)),
        base=math.exp(rng.uniform(math.log(50), math.log(4000))),
        swing=rng.uniform(0, 0.7),
        start=rng.choice([0.0, 3_600.0, rng.uniform(1e4, 9e7)]),
    )
    if rng.random() < 0.3 and habits.step <= _LARGEST_WOBBLE / 3:
        habits = replace(habits, wobble=rng.randint(1, 3), wobble_messages=rng.randint(1, 5))
    if rng.random() < 0.4:
        least = 4 * habits.base * habits.cadence / 3600  # a smaller one might be consumption
        sizes = [size for size in (30.0, 500.0, 5_000.0, 1e6) if size >= least]
        spikes = tuple((at, rng.choice([-1, 1]) * rng.choice(sizes)) for at in moments(4))
        habits = replace(habits, spikes=spikes)
    if rng.random() < 0.4:
        habits = replace(habits, outages=tuple((at, at + rng.choice([60, 600, 3000, 20_000])) for at in moments(3)))
    if rng.random() < 0.2:
        habits = replace(habits, reset=BEGIN + rng.uniform(0.1, 1.9) * DAY)
    if rng.random() < 0.3:
        at = BEGIN + rng.uniform(0.1, 1.9) * DAY
        habits = replace(habits, zeros=(at, at + rng.choice([20, 160, 1000])))
    if rng.random() < 0.4:
        habits = replace(habits, restarts=tuple(moments(4)))
    if rng.random() < 0.4:
        habits = replace(habits, late=rng.choice([0.0, 2.0, 400.0]))
    if rng.random() < 0.3:
        faults = tuple((at, rng.choice([-13_320.0, -60.0, 60.0, 7200.0])) for at in moments(2))
        habits = replace(habits, clock_faults=faults)
    return habits


def readings(habits: Habits, rng: random.Random) -> Iterator[tuple[float, float]]:
    """Yield (time, Wh) of each message of a meter."""
    count, at, spikes = 0, BEGIN + rng.uniform(0, habits.cadence), list(habits.spikes)
    while at < BEGIN + _DAYS * DAY + 2 * max(WINDOW, 3 * habits.cadence):
        count += 1
        lost = habits.energy(habits.reset) + habits.start if at >= habits.reset else 0.0
        wh = (habits.start + habits.energy(at) - lost) // habits.step * habits.step
        if count % 12 < habits.wobble_messages:
            wh -= habits.wobble * habits.step
        if spikes and at >= spikes[0][0]:
            wh += spikes.pop(0)[1]
        if habits.zeros[0] <= at < habits.zeros[1]:
            wh = 0.0
        if wh >= 0 and not any(begin <= at < end for begin, end in habits.outages):
            yield at, wh
        at += habits.cadence * (rng.uniform(0.98, 1.02) if habits.cadence != round(habits.cadence) else 1.0)


@dataclass(slots=True)
class Result:
    """What a feed stored for a meter.

    Attributes:
        windows: Wh by window number.
        refused: number of refusals, by reason.
    """

    windows: dict[int, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)


def run_meter(habits: Habits, rng: random.Random) -> Result:
    """Pass a meter's messages to a feed that restarts when the habits say so, and return what it stores."""
    source = Source("house", counter=True, json=habits.late is not None, factor=1.0, values=(Value("t"),))
    if habits.late is not None:
        source = replace(source, values=(Value("t", ("wh",)),), time_path=("at",), time_format="seconds")
    result, meter, restarts = Result(), Meter(source, WINDOW), list(habits.restarts)
    for at, wh in readings(habits, rng):
        if restarts and at >= restarts[0]:
            restarts.pop(0)
            meter = _restarted(meter, source)
        wall = at + (habits.late or 0.0)
        wall += sum(by for moment, by in habits.clock_faults if moment <= at < moment + 1000)
        payload = f"{wh:.4f}" if habits.late is None else f'{{"at": {at:.3f}, "wh": {wh:.4f}}}'
        try:
            for window in meter.process(Arrival("t", payload.encode(), False, at - BEGIN + 1000.0, wall)):
                result.windows.setdefault(window.number, window.wh)
        except MessageRefused as refusal:
            result.refused[refusal.reason] = result.refused.get(refusal.reason, 0) + 1
    return result


def _restarted(meter: Any, source: Source) -> Meter:
    """Return the meter of a new process, which knows what the store contains."""
    new = Meter(source, WINDOW)
    if hasattr(meter, "state"):
        new.resume(meter.state)
    return new


def wrong_windows(habits: Habits, result: Result) -> dict[int, tuple[int, float]]:
    """Return (stored, true) Wh of each window that is wrong by more than 5 % and more than the counter can show."""
    wrong = {}
    for number, wh in result.windows.items():
        true = habits.energy((number + 1) * WINDOW) - habits.energy(number * WINDOW)
        if abs(wh - true) > max(0.05 * true, tolerance(habits)):
            wrong[number] = wh, true
    return wrong


def tolerance(habits: Habits) -> float:
    """Return the uncertainty of a window, in Wh: a step at each edge, the wobble, and rounding."""
    return habits.step * (1 + habits.wobble) + 1
