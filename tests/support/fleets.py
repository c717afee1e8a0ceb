"""Fleets made by hand, and certificates of theirs that are over or have not begun."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from sottovoce.identity import Fleet, Validity, create_fleet

_YEAR = timedelta(days=365)
_DAY = timedelta(days=1)


def new_fleet(directory: Path, name: str = "by-hand") -> Fleet:
    """A fleet whose certificate holds from a year ago to a year from now."""
    now = datetime.now(UTC)
    return create_fleet(directory, name, validity=Validity(now - _YEAR, now + _YEAR))


def ending_in(seconds: float) -> Validity:
    """A validity that began two days ago; with negative seconds, one that is over."""
    now = datetime.now(UTC)
    return Validity(now - 2 * _DAY, now + timedelta(seconds=seconds))


def beginning_tomorrow() -> Validity:
    now = datetime.now(UTC)
    return Validity(now + _DAY, now + _YEAR / 2)
