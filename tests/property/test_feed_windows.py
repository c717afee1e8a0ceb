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
def test_windows_lie_between_what_was_counted_around_them(changes: list[tuple[float, float]]) -> None:
    readings = [(BEGIN, 1000.0)]
    for seconds, wh in changes:
        readings.append((readings[-1][0] + seconds, readings[-1][1] + wh))
    windows = CounterWindows(SECONDS, GAP)
    found = [window for instant, wh in readings for window in windows.add(instant, wh)]
    assert found == sorted(found)
    for number, wh in found:
        begin, end = number * SECONDS, (number + 1) * SECONDS
        inside = [counted for instant, counted in readings if begin <= instant <= end]
        around = (
            max(counted for instant, counted in readings if instant <= begin),
            min(counted for instant, counted in readings if instant >= end),
        )
        least = inside[-1] - inside[0] if inside else 0.0
        assert least - 1.0 <= wh <= around[1] - around[0] + 1.0, "rounding may take or give half a Wh at each edge"
        for edge in (begin, end):
            near = any(a[0] <= edge <= b[0] and b[0] - a[0] <= GAP for a, b in pairwise(readings))
            assert near or any(instant == edge for instant, _ in readings), "an edge that nobody saw"


@given(steps)
def test_in_a_row_nothing_is_lost_or_counted_twice(changes: list[tuple[float, float]]) -> None:
    readings = [(BEGIN, 1000.0)]
    for seconds, wh in changes:
        readings.append((readings[-1][0] + min(seconds, GAP), readings[-1][1] + wh))
    windows = CounterWindows(SECONDS, GAP)
    found = [window for instant, wh in readings for window in windows.add(instant, wh)]
    assert [number for number, _ in found] == list(range(1_000_000, 1_000_000 + len(found)))
    last = BEGIN + SECONDS * len(found)
    counted = [wh for instant, wh in readings if instant <= last][-1] - 1000.0
    bound = next((wh for instant, wh in readings if instant >= last), readings[-1][1]) - 1000.0
    assert counted - 1.0 <= sum(wh for _, wh in found) <= bound + 1.0


@given(st.lists(st.tuples(st.floats(0.1, 600.0), st.floats(-10.0, 1e9)), max_size=60))
def test_no_accepted_step_exceeds_the_largest_power(readings: list[tuple[float, float]]) -> None:
    rising = CounterGuard(10_000.0, 0.0, is_only_counter=True, net=False)
    tick, accepted = 0.0, list[tuple[float, float]]()
    for seconds, wh in readings:
        tick += seconds
        try:
            continues = rising.check(tick, wh)
        except MessageRefused:
            continue
        if not continues:
            accepted = []
        accepted.append((tick, wh))
        for before, after in pairwise(accepted):
            assert 0 <= after[1] - before[1] <= 10_000.0 * (after[0] - before[0] + 60) / 3600 + 1e-6
