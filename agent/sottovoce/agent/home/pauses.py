"""Pauses between attempts, with full jitter: when a broker comes back, its homes do not all reconnect at once."""

import secrets

SHORTEST = 1.0
LONGEST = 120.0
_random = secrets.SystemRandom()


class Pauses:
    """Pauses, each drawn between the shortest and a bound that doubles up to the longest."""

    def __init__(self) -> None:
        self._bound = SHORTEST

    def next(self) -> float:
        """Seconds until the next attempt."""
        self._bound = min(2 * self._bound, LONGEST)
        return _random.uniform(SHORTEST, self._bound)

    def reset(self) -> None:
        """Start over with the shortest pause, after an attempt that succeeded."""
        self._bound = SHORTEST
