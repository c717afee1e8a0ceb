"""Failed contact attempts, and when to retry them.

Both are local to this device: it never tells its peers that another device is dead.
"""

import random
from collections import OrderedDict

MAX_FAILURES = 3
"""Number of consecutive failures after which a peer is dropped from the view."""

LONGEST_SECONDS = 3600.0
_MAX_PEERS = 1024


class Failures:
    """Per-peer exponential backoff with jitter, for the 1,024 peers that failed most recently.

    Args:
        first_pause: length of the first pause, in seconds.
        rng: random number generator for the jitter.
    """

    def __init__(self, first_pause: float, rng: random.Random) -> None:
        self._first_pause = first_pause
        self._rng = rng
        self._failed: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def fail(self, peer: str, now: float, longest: float) -> int:
        """Count a failed attempt to contact a peer and schedule the next one.

        Args:
            peer: the peer's node id.
            now: current time in seconds.
            longest: upper limit on the pause, in seconds; the pause doubles with each consecutive failure.

        Returns:
            The number of consecutive failures.
        """
        count = self._failed.pop(peer, (0, 0.0))[0] + 1
        pause = min(longest, self._first_pause * 2.0 ** min(count - 1, 30))
        self._failed[peer] = count, now + self._rng.uniform(pause / 10, pause)
        if len(self._failed) > _MAX_PEERS:
            self._failed.popitem(last=False)
        return count

    def clear(self, peer: str) -> None:
        """Clear the failures of a peer that has answered."""
        self._failed.pop(peer, None)

    def forgive(self, peer: str | None, now: float) -> None:
        """Allow an immediate retry of a peer that may be reachable again, or of all peers if `peer` is None."""
        for failed_peer in list(self._failed) if peer is None else {peer} & self._failed.keys():
            self._failed[failed_peer] = min(self._failed[failed_peer][0], MAX_FAILURES - 1), now

    def retry_at(self, peer: str) -> float:
        """Return when to try a peer next, in seconds; minus infinity for a peer that has not failed."""
        return self._failed.get(peer, (0, float("-inf")))[1]

    def is_shunned(self, peer: str, now: float) -> bool:
        """Return whether a peer has failed too often to be in the view and its pause has not ended yet."""
        count, retry_at = self._failed.get(peer, (0, float("-inf")))
        return count >= MAX_FAILURES and now < retry_at
