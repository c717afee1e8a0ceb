"""Window energies, whatever a meter does: exactly what the meter counted between the window's edges, or no value."""

from itertools import pairwise

from hypothesis import given, strategies as st
from sottovoce.errors import MessageRefused
from sottovoce_home.meters.judge import Count, CounterJudge, Step
from sottovoce_home.meters.reduction import CounterWindows

SECONDS, GAP = 300, 60.0
BEGIN = 1_000_000.0 * SECONDS

steps = st.lists(
    st.tuples(st.floats(0.5, 200.0), st.floats(0.0, 50.0)), min_size=1, max_size=60
)  # seconds and Wh since the reading before


def steps_between(readings: list[tuple[float, float]]) -> list[Step]:
    counts: list[Count] = []
    for at, wh in readings:
        if counts and counts[-1].total == wh:
            counts[-1] = counts[-1].repeated(at, GAP)
        else:
            counts.append(Count(at, at, (wh,), 1, at))
    return [Step(None, counts[0]), *(Step(before, after) for before, after in pairwise(counts))]


@given(steps)
def test_window_energies_agree_with_the_surrounding_readings(changes: list[tuple[float, float]]) -> None:
    readings = [(BEGIN, 1000.0)]
    for seconds, wh in changes:
        readings.append((readings[-1][0] + seconds, readings[-1][1] + wh))
    windows = CounterWindows(SECONDS, GAP)
    results = [window for step in steps_between(readings) for window in windows.add(step)]
    assert results == sorted(results)
    for number, wh in results:
        begin, end = number * SECONDS, (number + 1) * SECONDS
        readings_inside = [counted for instant, counted in readings if begin <= instant <= end]
        bounds = (
            max(counted for instant, counted in readings if instant <= begin),
            min(counted for instant, counted in readings if instant >= end),
        )
        minimum = readings_inside[-1] - readings_inside[0] if readings_inside else 0.0
        slack = 1.0 + max(rise for _, rise in changes)  # half a Wh of rounding at each edge, and a step of the counter
        assert minimum - slack <= wh <= bounds[1] - bounds[0] + slack


@given(steps)
def test_consecutive_windows_add_up_to_the_counter(changes: list[tuple[float, float]]) -> None:
    readings = [(BEGIN, 1000.0)]
    for seconds, wh in changes:
        readings.append((readings[-1][0] + min(seconds, GAP), readings[-1][1] + min(wh, 10.0)))
    windows = CounterWindows(SECONDS, GAP)
    results = [window for step in steps_between(readings) for window in windows.add(step)]
    assert [number for number, _ in results] == list(range(1_000_000, 1_000_000 + len(results)))
    last = BEGIN + SECONDS * len(results)
    counted = [wh for instant, wh in readings if instant <= last][-1] - 1000.0
    bound = next((wh for instant, wh in readings if instant >= last), readings[-1][1]) - 1000.0
    slack = 1.0 + max(rise for _, rise in changes)
    assert counted - slack <= sum(wh for _, wh in results) <= bound + slack


@given(st.lists(st.tuples(st.floats(0.1, 600.0), st.floats(0.0, 1e9)), max_size=60))
def test_no_confirmed_step_exceeds_the_largest_power(readings: list[tuple[float, float]]) -> None:
    judge = CounterJudge(10_000.0, 0.0, 600.0, net=False)
    time, last = BEGIN, None
    for seconds, wh in readings:
        time += seconds
        try:
            steps = judge.add(time, (wh,))
        except MessageRefused:
            continue
        for before, after in steps:
            if before is not None:
                assert last is not None
                assert (before.first, before.values) == (last.first, last.values), "steps are consecutive"
                assert 0 <= after.total - before.total <= 10_000.0 * (after.first - before.first + 60) / 3600 + 1e-6
            last = after
