"""Pauses between attempts, with full jitter so that homes do not all reconnect at once when a broker returns."""

import secrets

SHORTEST = 1.0
LONGEST = 120.0
_random = secrets.SystemRandom()


class Backoff:
    """Random pauses, each between the shortest pause and a bound that doubles until it reaches the longest pause."""

    def __init__(self) -> None:
        self._bound = SHORTEST

    def next(self) -> float:
        """Return the pause before the next attempt, in seconds."""
        self._bound = min(2 * self._bound, LONGEST)
        return _random.uniform(SHORTEST, self._bound)

    def reset(self) -> None:
        """Reset the bound to the shortest pause, after a successful attempt."""
        self._bound = SHORTEST
