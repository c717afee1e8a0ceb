"""Arrival times: the monotonic clock measures intervals, the wall clock only dates them."""

from sottovoce.days import NOT_BEFORE
from sottovoce.errors import MessageRefused

_TOLERANCE = 2.0


class Clock:
    """Conversion of arrivals to Unix time by an offset that changes only when the wall clock is set."""

    def __init__(self) -> None:
        self._offset: float | None = None

    def place(self, monotonic: float, wall: float) -> tuple[float, bool]:
        """Return the Unix time of an arrival, in seconds, and whether the clock was set since the last arrival.

        If it was set, readings from before and after that cannot be compared.

        Args:
            monotonic: seconds.
            wall: seconds of Unix time, by the system's clock.

        Raises:
            MessageRefused: if the clock has not been set since the start of this device.
        """
        if wall < NOT_BEFORE:
            raise MessageRefused("clock-unset", "this device's clock has not been set yet; it waits for that")
        was_set = self._offset is not None and abs(wall - monotonic - self._offset) > _TOLERANCE
        if self._offset is None or was_set:
            self._offset = wall - monotonic
        return monotonic + self._offset, was_set
