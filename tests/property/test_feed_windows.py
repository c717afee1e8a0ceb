"""Window energies, whatever a meter does: exactly what the meter counted between the window's edges, or no value."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from sottovoce.errors import MessageRefused
from sottovoce_home.meters.guards import CounterGuard
from sottovoce_home.meters.reduction import CounterWindows

SECONDS, GAP = 300, 60.0
BEGIN = 1_000_000.0 * SECONDS

steps = st.lists(
    st.tuples(st.floats(0.5, 200.0), st.floats(0.0, 50.0)), min_size=1, max_size=60
)  # seconds and Wh since the reading before


@given(steps)
def test_window_energies_agree_with_the_surrounding_readings(changes: list[tuple[float, float]]) -> None:
    readings = [(BEGIN, 1000.0)]
    for seconds, wh in changes:
        readings.append((readings[-1][0] + seconds, readings[-1][1] + wh))
    windows = CounterWindows(SECONDS, GAP)
    results = [window for instant, wh in readings for window in windows.add(instant, wh)]
    assert results == sorted(results)
    for number, wh in results:
        begin, end = number * SECONDS, (number + 1) * SECONDS
        readings_inside = [counted for instant, counted in readings if begin <= instant <= end]
        bounds = (
            max(counted for instant, counted in readings if instant <= begin),
            min(counted for instant, counted in readings if instant >= end),
        )
        minimum = readings_inside[-1] - readings_inside[0] if readings_inside else 0.0
        assert minimum - 1.0 <= wh <= bounds[1] - bounds[0] + 1.0, "rounding may take or give half a Wh at each edge"
        for edge in (begin, end):
            has_nearby_readings = any(a[0] <= edge <= b[0] and b[0] - a[0] <= GAP for a, b in pairwise(readings))
            assert has_nearby_readings or any(instant == edge for instant, _ in readings), (
                "every edge has readings nearby"
            )


@given(steps)
def test_consecutive_windows_add_up_to_the_counter(changes: list[tuple[float, float]]) -> None:
    readings = [(BEGIN, 1000.0)]
    for seconds, wh in changes:
        readings.append((readings[-1][0] + min(seconds, GAP), readings[-1][1] + wh))
    windows = CounterWindows(SECONDS, GAP)
    results = [window for instant, wh in readings for window in windows.add(instant, wh)]
    assert [number for number, _ in results] == list(range(1_000_000, 1_000_000 + len(results)))
    last = BEGIN + SECONDS * len(results)
    counted = [wh for instant, wh in readings if instant <= last][-1] - 1000.0
    bound = next((wh for instant, wh in readings if instant >= last), readings[-1][1]) - 1000.0
    assert counted - 1.0 <= sum(wh for _, wh in results) <= bound + 1.0


@given(st.lists(st.tuples(st.floats(0.1, 600.0), st.floats(-10.0, 1e9)), max_size=60))
def test_no_accepted_step_exceeds_the_largest_power(readings: list[tuple[float, float]]) -> None:
    counting_guard = CounterGuard(10_000.0, 0.0, is_only_counter=True, net=False)
    tick, accepted = 0.0, list[tuple[float, float]]()
    for seconds, wh in readings:
        tick += seconds
        try:
            continues_sequence = counting_guard.check(tick, wh)
        except MessageRefused:
            continue
        if not continues_sequence:
            accepted = []
        accepted.append((tick, wh))
        for before, after in pairwise(accepted):
            assert 0 <= after[1] - before[1] <= 10_000.0 * (after[0] - before[0] + 60) / 3600 + 1e-6
