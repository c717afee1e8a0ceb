"""Failed contacts, and the times of the next attempts. Both are local: no device is declared dead to others."""

import random
from collections import OrderedDict

ENOUGH = 3
"""Failed contacts in a row after which a peer is dropped from the view."""

LONGEST_SECONDS = 3600.0
_REMEMBERED = 1024


class Failures:
    """Exponential backoff with jitter for each peer; the last 1,024 peers that failed are kept.

    Args:
        first: length of the first pause, in seconds.
        rng: source of randomness for the jitter.
    """

    def __init__(self, first: float, rng: random.Random) -> None:
        self._first = first
        self._dice = rng
        self._failed: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def fail(self, peer: str, now: float, longest: float) -> int:
        """Count a failed contact, and double its pause, up to `longest` seconds; return the failures in a row."""
        count = self._failed.pop(peer, (0, 0.0))[0] + 1
        pause = min(longest, self._first * 2.0 ** min(count - 1, 30))
        self._failed[peer] = count, now + self._dice.uniform(pause / 10, pause)
        if len(self._failed) > _REMEMBERED:
            self._failed.popitem(last=False)
        return count

    def clear(self, peer: str) -> None:
        """Clear the failures of a device that answered."""
        self._failed.pop(peer, None)

    def forgive(self, peer: str | None, now: float) -> None:
        """Allow an immediate retry of a peer whose call proves that one direction works; of all peers for None."""
        for one in list(self._failed) if peer is None else {peer} & self._failed.keys():
            self._failed[one] = min(self._failed[one][0], ENOUGH - 1), now

    def retry_at(self, peer: str) -> float:
        """Return the time, in seconds, of a peer's next attempt; minus infinity for a peer that has not failed."""
        return self._failed.get(peer, (0, float("-inf")))[1]

    def is_shunned(self, peer: str, now: float) -> bool:
        """Return whether a peer failed too often to be in the view, and its pause has not yet ended."""
        count, retry_at = self._failed.get(peer, (0, float("-inf")))
        return count >= ENOUGH and now < retry_at
