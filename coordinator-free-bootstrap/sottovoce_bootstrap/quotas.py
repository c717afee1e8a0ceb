"""Per-period quotas, both for each device and for all devices together."""

from collections import Counter

from sottovoce.errors import MessageRefused

MAX_REQUESTS_PER_SENDER = 6  # four requests at the shortest period, and a margin for random variation
MAX_REQUESTS = 128


class Quotas:
    """Counters that are reset in every period, so they never cover more than one period.

    Args:
        period: length of a period, in seconds.
        introductions: number of devices new to the view that one introducer may add per period.
    """

    def __init__(self, period: float, introductions: int) -> None:
        self._period = period
        self._introductions = introductions
        self._end = float("-inf")
        self._requests: Counter[str] = Counter()
        self._introduced: Counter[str] = Counter()

    def request(self, sender: str, now: float) -> None:
        """Count a request.

        Raises:
            MessageRefused: with reason `rate` if the sender, or all devices together, have used up the period's quota.
        """
        self._start_period(now)
        if self._requests[sender] >= MAX_REQUESTS_PER_SENDER or self._requests.total() >= MAX_REQUESTS:
            raise MessageRefused("rate", "the exchange quota for this period is used up; try again in the next period")
        self._requests[sender] += 1

    def may_introduce(self, introducer: str, now: float) -> bool:
        """Return whether an introducer may add one more device that is new to the view."""
        self._start_period(now)
        return self._introduced[introducer] < self._introductions

    def note_introduction(self, introducer: str) -> None:
        """Count a device that an introducer has added to the view."""
        self._introduced[introducer] += 1

    def _start_period(self, now: float) -> None:
        if now >= self._end:
            self._end = now + self._period
            self._requests.clear()
            self._introduced.clear()
