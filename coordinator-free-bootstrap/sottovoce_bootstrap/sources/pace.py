"""How long to wait until a source is looked at again: little while a device is alone, long when its view is full."""

import random

FIRST_SECONDS = 1.0
ALONE_SECONDS = 60.0
"""The longest pause of a device that knows no one."""

SOME_PERIODS, FULL_PERIODS = 10, 100
_MIN_SECONDS = 5.0
_MAX_SECONDS = 3600.0


def pause(known: int, enough: int, looks: int, period: float, rng: random.Random) -> float:
    """Seconds, with full jitter, so that a fleet which lost its power at once does not ask at once.

    Args:
        known: devices in the view.
        enough: devices that a full view has.
        looks: looks in a row after which this device knew no one, or that failed.
        period: seconds between exchanges of views in this fleet.
        rng: draws the jitter.
    """
    doubling = min(ALONE_SECONDS, FIRST_SECONDS * 2.0 ** min(looks, 30))
    if known == 0:
        return rng.uniform(doubling / 10, doubling)
    periods = FULL_PERIODS if known >= enough else SOME_PERIODS
    longest = max(doubling, min(_MAX_SECONDS, max(_MIN_SECONDS, periods * period)))
    return rng.uniform(longest / 2, longest)
