"""UTC days, numbered from 1970-01-01, which serve as the windows of a meter's feed."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

DAY = 86_400
"""Number of seconds in a day."""

EXPORT = "-export"
"""Suffix that is appended to a net meter's name for windows in which it exported more energy than it imported."""

NOT_BEFORE = 1_767_225_600.0
"""1 January 2026, UTC, in Unix time. This program is newer, so a clock that shows an earlier time has not been set."""


def last_complete_day(now: float) -> int | None:
    """Return the number of the most recent complete day; None if the clock has not been set yet.

    Args:
        now: the current Unix time, in seconds.
    """
    return None if now < NOT_BEFORE else int(now // DAY) - 1


def date_after(days: float | None) -> str | None:
    """Return the ISO 8601 date `days` days from now, at most a hundred years ahead; None if `days` is None."""
    if days is None:
        return None
    return (datetime.now(UTC).date() + timedelta(days=min(days, 36_500.0))).isoformat()


def with_day_numbers(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return configuration tables in which dates in `data.windows` are replaced by day numbers.

    An invalid date is left unchanged, so the schema rejects it.
    """
    data = tables.get("data")
    if not isinstance(data, Mapping) or not isinstance(data.get("windows"), list):
        return dict(tables)
    return {**tables, "data": {**data, "windows": [_day_number(day) for day in data["windows"]]}}


def _day_number(day: Any) -> Any:
    if isinstance(day, str):
        try:
            day = date.fromisoformat(day)
        except ValueError:
            return day
    if isinstance(day, date) and not isinstance(day, datetime):
        return (day - date(1970, 1, 1)).days
    return day
