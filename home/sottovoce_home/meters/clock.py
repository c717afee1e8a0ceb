"""Arrival times, for which the monotonic clock measures intervals and the wall clock only provides the date."""

from sottovoce.days import NOT_BEFORE
from sottovoce.errors import MessageRefused

_TOLERANCE = 2.0


class Clock:
    """Converter of arrival times to Unix time, with an offset that changes only when the wall clock is set."""

    def __init__(self) -> None:
        self._offset: float | None = None

    def to_unix_time(self, monotonic: float, wall: float) -> tuple[float, bool]:
        """Return the Unix time of an arrival, in seconds, and whether the clock was set since the last arrival.

        If the clock was set, readings from before and after the change cannot be compared.

        Args:
            monotonic: arrival time on the monotonic clock, in seconds.
            wall: arrival time on the system clock, in seconds of Unix time.

        Raises:
            MessageRefused: if the clock has not been set since the start of this device.
        """
        if wall < NOT_BEFORE:
            raise MessageRefused(
                "clock-unset", "this device's clock has not been set yet; messages are refused until it is set"
            )
        was_set = self._offset is not None and abs(wall - monotonic - self._offset) > _TOLERANCE
        if self._offset is None or was_set:
            self._offset = wall - monotonic
        return monotonic + self._offset, was_set
