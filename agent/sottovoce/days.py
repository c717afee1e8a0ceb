"""Days, UTC, by the wall clock: the windows of a meter's feed, numbered from 1970-01-01."""

DAY = 86_400
"""Seconds."""

NOT_BEFORE = 1_767_225_600.0
"""1 January 2026, UTC: no copy of this program existed before, so a clock that says less has not been set."""


def last_day_over(now: float) -> int | None:
    """Number of the last day that is over; None while the clock has not been set.

    Args:
        now: seconds of Unix time.
    """
    return None if now < NOT_BEFORE else int(now // DAY) - 1
