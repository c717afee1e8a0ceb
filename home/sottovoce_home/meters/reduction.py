"""Conversion of readings to energy windows; a window is omitted if the counter value at either edge is unknown."""

_HOUR = 3600.0


class CounterWindows:
    """Converts counter readings to energy windows.

    The counter value at the edge of a window is known from a reading at that instant, or by linear interpolation
    between two readings around it that are no further apart than the longest gap. A window requires only the counter
    values at its two edges, so readings inside it may be missing.

    Args:
        seconds: length of a window, in seconds.
        longest_gap: longest time between two readings for interpolation, in seconds.
        net: whether the counter may also fall, in which case windows may be negative.
    """

    def __init__(self, seconds: int, longest_gap: float, *, net: bool = False) -> None:
        self._net = net
        self._seconds = seconds
        self._longest_gap = longest_gap
        self._last: tuple[float, float] | None = None
        self._edge: tuple[int, float] | None = None

    def forget(self) -> None:
        """Discard earlier readings, which are not comparable with later ones."""
        self._last = self._edge = None

    def add(self, instant: float, wh: float) -> list[tuple[int, int]]:
        """Add a reading, unless it is no later than the previous one or, without `net`, lower than it.

        Args:
            instant: Unix time, in seconds.
            wh: counter value, in Wh.

        Returns:
            (number, Wh) of each window that this reading completes.
        """
        if self._last is not None and (instant <= self._last[0] or (wh < self._last[1] and not self._net)):
            return []
        windows = []
        for number, value in self._edges(instant, wh):
            if self._edge is not None and self._edge[0] == number - 1:
                windows.append((number - 1, round(value) - round(self._edge[1])))
            self._edge = number, value
        self._last = instant, wh
        return windows

    def _edges(self, instant: float, wh: float) -> list[tuple[int, float]]:
        """Return (number, counter) for the start of each window after the last reading and no later than this one."""
        end = instant // self._seconds
        if self._last is None or instant - self._last[0] > self._longest_gap:
            return [(int(end), wh)] if end * self._seconds == instant else []
        before, counted = self._last
        rate = (wh - counted) / (instant - before)
        begins = range(int(before // self._seconds) + 1, int(end) + 1)
        return [(number, counted + rate * (number * self._seconds - before)) for number in begins]


class PowerWindows:
    """Converts power readings to energy windows, interpolating linearly across gaps of at most `longest_gap`.

    Args:
        seconds: length of a window, in seconds.
        longest_gap: longest time between two readings for interpolation, in seconds.
        net: whether the power, and therefore a window, may be negative.
    """

    def __init__(self, seconds: int, longest_gap: float, *, net: bool = False) -> None:
        self._counter = CounterWindows(seconds, longest_gap, net=net)
        self._longest_gap = longest_gap
        self._last: tuple[float, float] | None = None
        self._wh = 0.0

    def forget(self) -> None:
        """Discard earlier readings, which are not comparable with later ones."""
        self._last = None
        self._counter.forget()

    def add(self, instant: float, watts: float) -> list[tuple[int, int]]:
        """Add a reading, unless it is no later than the previous one.

        Args:
            instant: Unix time, in seconds.
            watts: power in W; may be negative only with `net`.

        Returns:
            (number, Wh) of each window that this reading completes.
        """
        if self._last is None or instant - self._last[0] > self._longest_gap:
            self._counter.forget()
        elif instant <= self._last[0]:
            return []
        else:
            before, power = self._last
            self._wh += (power + watts) / 2 * (instant - before) / _HOUR
        self._last = instant, watts
        return self._counter.add(instant, self._wh)
