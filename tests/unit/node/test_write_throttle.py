"""Write throttle: a day's allowance of bytes is spread evenly over the day."""

import pytest
from sottovoce.node.write_throttle import DailyCounter, seconds_to_wait

DAY, MAX = 86_400, 2**20


@pytest.mark.parametrize("at", [0, 3_600, DAY // 2, DAY - 1])
def test_part_of_the_day_s_bytes_may_be_written_at_once(at: int) -> None:
    assert seconds_to_wait(MAX // 4, MAX, 20_000 * DAY + at) == 0


def test_the_rest_is_spread_over_the_day() -> None:
    """A device that always has a kilobyte to write uses a day's bytes in a day, and no sooner."""
    now, written, pauses = 20_000.0 * DAY, 0, 0
    while written < MAX:
        waited = seconds_to_wait(written, MAX, now)
        assert waited < DAY / 500, "it never pauses for long"
        pauses += waited > 0
        now += waited
        written += 1024
    assert 0.99 * DAY < now % DAY < DAY
    assert pauses > 700


def test_more_than_a_day_s_bytes_wait_for_the_next_day() -> None:
    assert seconds_to_wait(MAX, MAX, 20_000 * DAY + 100) == DAY - 100


def test_a_device_that_has_written_little_by_noon_does_not_wait() -> None:
    assert seconds_to_wait(MAX // 2, MAX, 20_000 * DAY + DAY // 2) == 0


def test_a_growing_counter_is_counted_from_midnight() -> None:
    total, now = 500, 20_000.0 * DAY + 100
    today = DailyCounter(lambda: total, lambda: now)
    assert today() == 0
    total = 700
    assert today() == 200
    now += DAY
    assert today() == 0
    total = 701
    assert today() == 1
