"""Determination of the last day that has ended, by a wall clock that is trusted only while it is steady.

If a clock that jumped were trusted, future days would be charged, again and again, until none could pay any more.
So after a jump no day counts as ended until the clock has agreed with the machine's uptime for some hours. A jump costs
that pause and nothing else. After a start, the clock is believed at once if it shows a day near the last charged one.
"""

import logging
from collections.abc import Callable

from sottovoce.days import last_day_over
from sottovoce.vault.life import uptime

STEADY_SECONDS = 6 * 3600.0
"""Seconds for which a clock has to agree with the uptime after a jump."""

_log = logging.getLogger(__name__)
_JUMP_SECONDS = 3600.0
_AWAY_DAYS = 31
"""Days after which a device that was off has to wait, as after a jump."""


class TrustedDays:
    """Source of the last day that has ended. Call it regularly: a jump there and back in between is missed, harmlessly.

    Args:
        clock: seconds of Unix time.
        charged: number of the last day that the ledger has charged; None before the first charge.
        lived: seconds on a monotonic clock that cannot be set; the machine's uptime by default.
    """

    def __init__(
        self, clock: Callable[[], float], charged: int | None, lived: Callable[[], float] | None = None
    ) -> None:
        self._clock, self._uptime = clock, lived or uptime
        now, over = self._uptime(), last_day_over(clock())
        self._offset, self._since = clock() - now, now
        self._believed = over is None or charged is None or charged - 1 <= over <= charged + _AWAY_DAYS
        if not self._believed:
            self._warn("the last day that was charged is far from the present one")

    def __call__(self) -> int | None:
        """Return the number of the last day that has ended; None while the clock is not set, or not trusted."""
        wall, now = self._clock(), self._uptime()
        if abs(wall - now - self._offset) > _JUMP_SECONDS:
            if self._believed or now - self._since > _JUMP_SECONDS:
                self._warn("it was set")
            self._offset, self._since, self._believed = wall - now, now, False
        if not self._believed and now - self._since >= STEADY_SECONDS:
            self._believed = True
            _log.info("clock-believed")
        return last_day_over(wall) if self._believed else None

    @staticmethod
    def _warn(why: str) -> None:
        _log.warning(
            "clock-jumped %s; no day is charged until it has been steady for %.0f hours", why, STEADY_SECONDS / 3600
        )
