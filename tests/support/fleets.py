"""Create fleets without the testbed, and validity periods that have already ended or not yet begun."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sottovoce.fleet import Validity
from sottovoce_operator.fleet import Fleet, create_fleet

from tests.support.devices import Device, new_device

_YEAR = timedelta(days=365)
_DAY = timedelta(days=1)


def new_fleet(directory: Path, name: str = "by-hand") -> Fleet:
    """Make a fleet whose certificate is valid from a year ago to a year from now."""
    now = datetime.now(UTC)
    return create_fleet(directory, name, validity=Validity(now - _YEAR, now + _YEAR))


def validity_ending_in(seconds: float) -> Validity:
    """Return a validity period from two days ago to `seconds` from now; if negative, it has already ended."""
    now = datetime.now(UTC)
    return Validity(now - 2 * _DAY, now + timedelta(seconds=seconds))


def beginning_tomorrow() -> Validity:
    now = datetime.now(UTC)
    return Validity(now + _DAY, now + _YEAR / 2)


def devices_listing_all(
    fleet: Fleet, directory: Path, count: int, learner: Mapping[str, Any], slow: Iterable[int] = ()
) -> list[Device]:
    """Make this many devices with a budget of 50, each listing all others; some have a period of an hour."""
    devices = [new_device(fleet, directory / f"d{i}", seed=i, epsilon=50.0) for i in range(count)]
    for i, device in enumerate(devices):
        paced = {"period": 3600.0, "longest_period": 3600.0} if i in slow else {}
        others = [other.entry() for other in devices if other is not device]
        device.configure(others, learner={**learner, **paced}, privacy={"epsilon": 50.0})
    return devices
