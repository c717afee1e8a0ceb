"""Days, UTC, by the wall clock: the windows of a meter's feed, numbered from 1970-01-01."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

DAY = 86_400
"""Seconds in a day."""

EXPORT = "-export"
"""Suffix of a net meter's name for the windows that hold its surplus, where it fed in more than it took."""

NOT_BEFORE = 1_767_225_600.0
"""1 January 2026, UTC, in seconds of Unix time: this program is newer, so an earlier clock has not been set."""


def last_day_over(now: float) -> int | None:
    """Return the number of the last day that has ended; None while the clock has not been set.

    Args:
        now: seconds of Unix time.
    """
    return None if now < NOT_BEFORE else int(now // DAY) - 1


def lasts_until(days: float | None) -> str | None:
    """Return the date after this many days, ISO 8601, at most a hundred years ahead; None if `days` is None."""
    if days is None:
        return None
    return (datetime.now(UTC).date() + timedelta(days=min(days, 36_500.0))).isoformat()


def with_day_numbers(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of a configuration, where days in `data.windows` may be dates, with days as numbers.

    An invalid date is left as it is, so that the schema refuses it.
    """
    data = tables.get("data")
    if not isinstance(data, Mapping) or not isinstance(data.get("windows"), list):
        return dict(tables)
    return {**tables, "data": {**data, "windows": [_number_of(day) for day in data["windows"]]}}


def _number_of(day: Any) -> Any:
    if isinstance(day, str):
        try:
            day = date.fromisoformat(day)
        except ValueError:
            return day
    if isinstance(day, date) and not isinstance(day, datetime):
        return (day - date(1970, 1, 1)).days
    return day
