"""The last day that has ended, according to a wall clock that is trusted only while it is steady.

If the vault trusted a clock that had jumped, it could charge future days, repeatedly, until none could pay anymore.
After a jump, no day therefore counts as ended until the clock has agreed with the machine's uptime for some hours. This
pause is the only cost of a jump. After a start, the clock is trusted immediately if it shows a day near the last
charged day.
"""

import logging
from collections.abc import Callable

from sottovoce.days import last_ended_day
from sottovoce.vault.running_time import uptime

STEADY_SECONDS = 6 * 3600.0
"""Seconds for which the clock has to agree with the uptime after a jump."""

_log = logging.getLogger(__name__)
_JUMP_SECONDS = 3600.0
_MAX_OFF_DAYS = 31
"""If a device was off for more than this number of days, its clock is not trusted at first, as after a jump."""


class TrustedDays:
    """Callable that returns the last day that has ended.

    Call it regularly. A jump that is reversed between two calls goes unnoticed, which is harmless.

    Args:
        clock: returns Unix time in seconds.
        charged: number of the last day that the ledger has charged; None before the first charge.
        monotonic_clock: returns the seconds of a monotonic clock that cannot be set; by default, the machine's uptime.
    """

    def __init__(
        self, clock: Callable[[], float], charged: int | None, monotonic_clock: Callable[[], float] | None = None
    ) -> None:
        self._clock, self._uptime = clock, monotonic_clock or uptime
        now, last_day = self._uptime(), last_ended_day(clock())
        self._offset, self._steady_since = clock() - now, now
        self._is_trusted = last_day is None or charged is None or charged - 1 <= last_day <= charged + _MAX_OFF_DAYS
        if not self._is_trusted:
            self._warn("the last day that was charged is far from the current day")

    def __call__(self) -> int | None:
        """Return the number of the last day that has ended; None while the clock is not set or not trusted."""
        wall, now = self._clock(), self._uptime()
        if abs(wall - now - self._offset) > _JUMP_SECONDS:
            if self._is_trusted or now - self._steady_since > _JUMP_SECONDS:
                self._warn("the clock was set")
            self._offset, self._steady_since, self._is_trusted = wall - now, now, False
        if not self._is_trusted and now - self._steady_since >= STEADY_SECONDS:
            self._is_trusted = True
            _log.info("clock-believed")
        return last_ended_day(wall) if self._is_trusted else None

    @staticmethod
    def _warn(reason: str) -> None:
        _log.warning(
            "clock-jumped %s; no day is charged until the clock has been steady for %.0f hours",
            reason,
            STEADY_SECONDS / 3600,
        )
