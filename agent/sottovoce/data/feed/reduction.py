"""Reduction of readings to windows: energy between two known edges. Unknown values are missing, never made up."""

_HOUR = 3600.0


class CounterWindows:
    """Windows of a counter.

    The counter at the edge of a window is known from a reading at that instant, or from two readings around it that are
    no further apart than the longest gap, between which it is taken to rise evenly. A window is known if both its edges
    are known, so readings inside may be missing.

    Args:
        seconds: length of a window.
        longest_gap: longest gap between two readings, in seconds.
        net: whether the counter may also fall; then a window may be below 0.
    """

    def __init__(self, seconds: int, longest_gap: float, *, net: bool = False) -> None:
        self._net = net
        self._seconds = seconds
        self._longest_gap = longest_gap
        self._last: tuple[float, float] | None = None
        self._edge: tuple[int, float] | None = None

    def forget(self) -> None:
        """Forget earlier readings: later ones cannot be compared with them."""
        self._last = self._edge = None

    def add(self, instant: float, wh: float) -> list[tuple[int, int]]:
        """Take a reading later than the previous one, and not below it unless the counter is net; others are ignored.

        Args:
            instant: Unix time, seconds.
            wh: the counter, Wh.

        Returns:
            (number, Wh) of each window that is known now.
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
        """Return (number, counter) of windows that begin after the last reading and no later than this one."""
        end = instant // self._seconds
        if self._last is None or instant - self._last[0] > self._longest_gap:
            return [(int(end), wh)] if end * self._seconds == instant else []
        before, counted = self._last
        rate = (wh - counted) / (instant - before)
        begins = range(int(before // self._seconds) + 1, int(end) + 1)
        return [(number, counted + rate * (number * self._seconds - before)) for number in begins]


class PowerWindows:
    """Windows of a power, taken to change evenly between readings that are no further apart than the gap.

    Args:
        seconds: length of a window.
        longest_gap: longest gap between two readings, in seconds.
        net: whether the power, and so a window, may be below 0.
    """

    def __init__(self, seconds: int, longest_gap: float, *, net: bool = False) -> None:
        self._counter = CounterWindows(seconds, longest_gap, net=net)
        self._longest_gap = longest_gap
        self._last: tuple[float, float] | None = None
        self._wh = 0.0

    def forget(self) -> None:
        """Forget earlier readings: later ones cannot be compared with them."""
        self._last = None
        self._counter.forget()

    def add(self, instant: float, watts: float) -> list[tuple[int, int]]:
        """Take a reading later than the previous one; others are ignored.

        Args:
            instant: Unix time, seconds.
            watts: the power, W, from 0 unless it is net.

        Returns:
            (number, Wh) of each window that is known now.
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
