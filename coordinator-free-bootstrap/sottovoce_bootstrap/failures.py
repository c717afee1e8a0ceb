"""Failures to answer, and when to try again. Each device's own opinion: none is declared dead to others."""

import random
from collections import OrderedDict

ENOUGH = 3
"""Failed contacts in a row after which a peer is dropped from the view."""

LONGEST_SECONDS = 3600.0
_REMEMBERED = 1024


class Failures:
    """Exponential backoff with jitter for each peer; remembers the last 1,024 that failed.

    Args:
        first: seconds of the first pause.
        rng: draws the jitter.
    """

    def __init__(self, first: float, rng: random.Random) -> None:
        self._first = first
        self._dice = rng
        self._failed: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def fail(self, peer: str, now: float, longest: float) -> int:
        """A contact failed; its pause doubles, up to `longest` seconds. Returns how many failed in a row."""
        count = self._failed.pop(peer, (0, 0.0))[0] + 1
        pause = min(longest, self._first * 2.0 ** min(count - 1, 30))
        self._failed[peer] = count, now + self._dice.uniform(pause / 10, pause)
        if len(self._failed) > _REMEMBERED:
            self._failed.popitem(last=False)
        return count

    def clear(self, peer: str) -> None:
        """Clears the failures of a device that answered."""
        self._failed.pop(peer, None)

    def forgive(self, peer: str | None, now: float) -> None:
        """Allows one more try at once for a device that called, which proves one direction; None: for all devices."""
        for one in list(self._failed) if peer is None else {peer} & self._failed.keys():
            self._failed[one] = min(self._failed[one][0], ENOUGH - 1), now

    def retry_at(self, peer: str) -> float:
        """Seconds from which on it may be tried; minus infinity for one that has not failed."""
        return self._failed.get(peer, (0, float("-inf")))[1]

    def shunned(self, peer: str, now: float) -> bool:
        """Whether it failed too often to be in the view, and is in its pause."""
        count, retry_at = self._failed.get(peer, (0, float("-inf")))
        return count >= ENOUGH and now < retry_at
