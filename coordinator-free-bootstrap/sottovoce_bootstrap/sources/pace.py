"""Pauses between queries to a source: short while a device knows no peer and long when its view is full."""

import random

FIRST_SECONDS = 1.0
ALONE_SECONDS = 60.0
"""Longest pause in seconds for a device that knows no peer."""

SOME_PERIODS, FULL_PERIODS = 10, 100
_MIN_SECONDS = 5.0
_MAX_SECONDS = 3600.0


def pause(known: int, enough: int, queries: int, period: float, rng: random.Random) -> float:
    """Return the pause in seconds, with enough jitter that devices that restart together do not query together.

    Args:
        known: number of devices in the view.
        enough: number of devices in a full view.
        queries: number of consecutive queries that failed or after which this device still knew no peer.
        period: seconds between view exchanges in this fleet.
        rng: random number generator for the jitter.
    """
    doubling = min(ALONE_SECONDS, FIRST_SECONDS * 2.0 ** min(queries, 30))
    if known == 0:
        return rng.uniform(doubling / 10, doubling)
    periods = FULL_PERIODS if known >= enough else SOME_PERIODS
    longest = max(doubling, min(_MAX_SECONDS, max(_MIN_SECONDS, periods * period)))
    return rng.uniform(longest / 2, longest)
