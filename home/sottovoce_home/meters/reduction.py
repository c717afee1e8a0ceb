"""Conversion of readings to energy windows; a window is omitted if the counter value at either edge is unknown."""

import math
from collections import deque
from typing import NamedTuple

import msgspec
from sottovoce.days import DAY

from sottovoce_home.meters.judge import Count, CounterJudge, Step
from sottovoce_home.meters.source import Source

_HOUR = 3600.0
_LONGEST_FLAT = float(DAY)
_FINE_STEP = 10.0
"""Wh; a window is right without interpolation if the counter's step is at most this."""
_USUAL_GAP = 1.5
"""A time between two readings is no gap if it is at most this many times as long as one of the two before it."""
_JITTER = 1.1
"""A message every window may be late, so readings may be this many windows apart."""
_RISES_FOR_STEP = 3
_IRREGULAR = 1.2
"""A meter reports on change if the times between its messages differ by more than this factor."""
_PARTS_OF_WH = 10
_LARGEST_ERROR = 0.1
"""Part of a window's energy by which its edges may be wrong together. Errors of 5 % are rare at this bound, because it
is the largest error of each edge and not the usual one."""
_ROUNDING = 1.0
FREQUENT_SECONDS = 150.0
"""With more frequent messages, an edge is hardly ever wrong by 5 % of a half hour, and a wobble looks like a burst."""
_POWERS = 3
_RARE_SECONDS = 450.0
"""Where messages come every ten minutes, the cycles of a refrigerator are as long, and look like a constant power."""
# Between two readings, a home may use three times as much as around them, and a kettle more.
_BURST, _APPLIANCE_WATTS = 3.0, 3000.0
_CLOCK_TOLERANCE = 900.0


class CounterState(msgspec.Struct, frozen=True):
    """The state from which a later process continues a count, so that a restart loses no window.

    Attributes:
        edge: number and counter value, in Wh, of the last edge of a window; None if it is unknown.
        counts: the last confirmed value of the counters and the later ones, in order of time.
        rises: the last rises, in tenths of a Wh, which the counter's step divides.
        error: possible error of the value at the edge, in Wh.
    """

    edge: tuple[int, float] | None
    counts: tuple[Count, ...]
    rises: tuple[int, ...] = ()
    error: float = 0.0


class Doubt(NamedTuple):
    """How far a counter may have been from a straight line between two readings.

    Attributes:
        wh: energy by which the line differs from one at the power before it.
        watts: largest power that a home may have between the readings.
    """

    wh: float
    watts: float

    def error(self, share: float, seconds: float) -> float:
        """Return the largest error in Wh of the value at a share of the line, which lasts for some seconds."""
        return min(self.wh * max(share, 1 - share), self.watts * min(share, 1 - share) * seconds / _HOUR)


class EdgeWindows:
    """Windows between edges at which a counter's value is known, each judged when it is whole.

    Args:
        seconds: length of a window, in seconds.
        max_watts: largest plausible power, in W.
        resolution: smallest step of the counter, in Wh.
        net: whether the counter may also fall, in which case windows may be negative.

    Attributes:
        implausible: number of windows that were left out because their energy was implausible.
        edge: number and counter value, in Wh, of the last edge; None if it is unknown.
        error: possible error of that value, in Wh.
        uncertain: number of windows that were left out because the values at their edges are uncertain.
    """

    def __init__(
        self, seconds: int, max_watts: float = math.inf, resolution: float = 0.0, *, net: bool = False
    ) -> None:
        self._seconds = seconds
        self._max_wh = max_watts * seconds / _HOUR + resolution
        self._net = net
        self.implausible = 0
        self.edge: tuple[int, float] | None = None
        self.error = 0.0
        self.uncertain = 0

    def forget(self) -> None:
        """Discard the last edge, which is not comparable with later ones."""
        self.edge = None

    def add(
        self, begin: tuple[float, float], end: tuple[float, float], doubt: Doubt | None = None, step: float = 0.0
    ) -> list[tuple[int, int]]:
        """Add a line on which the counter's values are known.

        Args:
            begin: Unix time in seconds, and counter value in Wh.
            end: the same, later.
            doubt: how far the counter may have been from the line; None if it was on it.
            step: energy in Wh by which a window may always be wrong.

        Returns:
            (number, Wh) of each window that is complete.
        """
        (before, counted), (after, count) = begin, end
        first = math.ceil(before / self._seconds)
        windows = []
        for number in range(first, int(after // self._seconds) + 1):
            share = (number * self._seconds - before) / (after - before) if after > before else 0.0
            value = counted + (count - counted) * share
            error = 0.0 if doubt is None else doubt.error(share, after - before)
            if self.edge is not None and self.edge[0] == number - 1:
                wh = round(value) - round(self.edge[1])
                if error + self.error > max(_LARGEST_ERROR * abs(wh), step + _ROUNDING):
                    self.uncertain += 1
                elif (-self._max_wh if self._net else 0) <= wh <= self._max_wh:
                    windows.append((number - 1, wh))
                else:
                    self.implausible += 1
            if self.edge is None or self.edge[0] < number:
                self.edge, self.error = (number, value), error
        return windows


class CounterWindows:
    """Converts the steps of a counter to energy windows.

    The counter value at the edge of a window is known while the counter does not change, and by linear interpolation
    between two values whose readings are no further apart than the longest gap. Between two values that differ by one
    step of the counter, it is always known to within that step, and is interpolated between the two changes. A window
    requires only the counter values at its two edges, so readings inside it may be missing.

    A counter that does not change for a day may be stuck, so its windows are omitted.

    Args:
        seconds: length of a window, in seconds.
        longest_gap: longest time between two readings for interpolation, in seconds.
        gap_is_set: whether readings that are regularly further apart leave gaps, too.
        max_watts: largest plausible power, in W.
        resolution: smallest step of the counter, in Wh.
        net: whether the counter may also fall, in which case windows may be negative.

    Attributes:
        edges: windows between the edges at which the counter value is known.
        rises: the last rises, in tenths of a Wh, which the counter's step divides.
    """

    def __init__(
        self,
        seconds: int,
        longest_gap: float,
        *,
        gap_is_set: bool = True,
        max_watts: float = math.inf,
        resolution: float = 0.0,
        net: bool = False,
    ) -> None:
        self.edges = EdgeWindows(seconds, max_watts, resolution, net=net)
        self._seconds = seconds
        self._longest_gap = longest_gap
        self._gap_is_set = gap_is_set
        self._resolution = resolution
        self._net = net
        self._intervals = deque[float](maxlen=_RISES_FOR_STEP - 1)
        self.rises = deque[int](maxlen=_RISES_FOR_STEP - 1)
        self._has_repeats = deque[bool](maxlen=_RISES_FOR_STEP)
        self._powers = deque[float](maxlen=_POWERS)

    def forget(self) -> None:
        """Discard earlier readings, which are not comparable with later ones."""
        self.edges.forget()
        self._powers.clear()
        self._intervals.clear()
        self.rises.clear()
        self._has_repeats.clear()

    def add(self, step: Step) -> list[tuple[int, int]]:
        """Add a step of the counter, and return (number, Wh) of each window that it completes."""
        before, after = step
        if before is None:
            self.forget()
            return self.edges.add((after.first, after.total), (after.first, after.total))
        flat, rise, silence = after.first - before.first, after.total - before.total, after.first - before.last
        is_gap = silence > self._gap()
        self._has_repeats.append(before.readings > 1)
        may_be_step = before.readings > 1 and len(self.rises) < _RISES_FOR_STEP - 1
        is_step = self._is_one_step(rise)
        crosses = before.first // DAY != after.first // DAY
        begin, last, end = (before.first, before.total), (before.last, before.total), (after.first, after.total)
        self._intervals.append(silence)
        if flat > _LONGEST_FLAT:
            lines = []
        elif is_step and not (crosses and flat > self._longest_gap):
            lines = [(begin, end)]
        elif (is_step or may_be_step) and rise > _FINE_STEP and not self._net:
            lines = []
        else:
            lines = [(begin, last)] + ([] if is_gap else [(last, end)])
        allowed = max(self._resolution, math.gcd(*self.rises) / _PARTS_OF_WH)
        doubt = self._doubt(rise, silence, was_flat=before.last - before.first >= silence / 2)
        windows = [
            window
            for line in lines
            for window in self.edges.add(*line, None if is_step or line[1] != end else doubt, allowed)
        ]
        return windows + self.edges.add(end, end, None, allowed)

    def _doubt(self, rise: float, silence: float, *, was_flat: bool) -> Doubt | None:
        """Return how far the counter may have been from a straight line during a silence, at whose end it had risen.

        If the load changed once between two readings, or was another one for a while, the line is wrong by at most the
        energy by which it differs from the power before. Where readings are rare, much may happen between them, so the
        last three powers count. None if messages are frequent, or no power is known yet.
        """
        watts = rise / silence * _HOUR
        number = _POWERS if silence > _RARE_SECONDS else 1
        usual = [0.0] if was_flat else list(self._powers)[-number:]
        self._powers.append(watts)
        highest = _BURST * max(abs(watts), *(abs(one) for one in self._powers)) + _APPLIANCE_WATTS
        if silence <= FREQUENT_SECONDS or not usual:
            return None
        wh = max(abs(watts - one) for one in usual) * silence / _HOUR
        return Doubt(wh if self._net else min(wh, rise), highest)

    def _gap(self) -> float:
        """Return the longest time between two readings for interpolation now, in seconds."""
        if self._gap_is_set or not self._intervals:
            return self._longest_gap
        return max(self._longest_gap, min(_USUAL_GAP * max(self._intervals), _JITTER * self._seconds))

    def _is_one_step(self, rise: float) -> bool:
        """Return whether a rise is the counter's step, which divides its last rises.

        A constant power and regular messages have equal rises, too: then, a value that repeats or a message that comes
        at another time shows that it is the step.
        """
        if self._net:
            return False
        parts = round(rise * _PARTS_OF_WH)
        divides = len(self.rises) == self.rises.maxlen and parts == math.gcd(parts, *self.rises)
        irregular = len(self._intervals) > 0 and max(self._intervals) > _IRREGULAR * min(self._intervals)
        self.rises.append(parts)
        return rise <= self._resolution or (divides and (irregular or any(self._has_repeats)))


class CounterReduction:
    """Reduction of a counter's readings to windows: judged readings become steps, and steps become windows.

    Args:
        source: declaration of the meter.
        seconds: length of a window, in seconds.
    """

    def __init__(self, source: Source, seconds: int) -> None:
        self._source = source
        self._earlier_restarts = 0
        self._windows = CounterWindows(
            seconds,
            source.longest_gap,
            gap_is_set=source.gap_is_set,
            max_watts=source.max_watts,
            resolution=source.resolution,
            net=source.net,
        )
        self._judge = self._new_judge(())
        self._resumed_at: float | None = None

    @property
    def restarts(self) -> int:
        """Number of new counts that have begun because the meter was reset or replaced or its register overflowed."""
        return self._earlier_restarts + self._judge.restarts

    @property
    def implausible(self) -> int:
        """Number of windows that were left out because their energy was implausible."""
        return self._windows.edges.implausible

    @property
    def state(self) -> CounterState:
        """State from which a later process continues."""
        edges = self._windows.edges
        return CounterState(edges.edge, self._judge.counts, tuple(self._windows.rises), edges.error)

    def resume(self, state: CounterState) -> None:
        """Continue from the state of an earlier process, unless the number of counters has changed."""
        if state.counts and len(state.counts[0].values) == len(self._source.values):
            self._windows.edges.edge, self._windows.edges.error = state.edge, state.error
            self._windows.rises.extend(state.rises)
            self._judge = self._new_judge(state.counts)
            self._resumed_at = state.counts[-1].seen

    def forget(self) -> None:
        """Discard earlier readings, which are not comparable with later ones."""
        self._earlier_restarts = self.restarts
        self._judge = self._new_judge(())
        self._windows.forget()

    def add(self, instant: float, values: tuple[float, ...]) -> list[tuple[int, int]]:
        """Add a reading, and return (number, Wh) of each window that it completes.

        Args:
            instant: Unix time, in seconds.
            values: the meter's counters, in Wh.

        Raises:
            MessageRefused: if the reading does not continue the count, or is not later than the one before.
        """
        if self._resumed_at is not None and instant < self._resumed_at - _CLOCK_TOLERANCE:
            self.forget()  # the clock was ahead when the earlier process ended
        self._resumed_at = None
        return [window for step in self._judge.add(instant, values) for window in self._windows.add(step)]

    def _new_judge(self, counts: tuple[Count, ...]) -> CounterJudge:
        source = self._source
        return CounterJudge(source.max_watts, source.resolution, source.longest_gap, net=source.net, counts=counts)


class PowerWindows:
    """Converts power readings to energy windows, interpolating linearly across gaps of at most `longest_gap`.

    Args:
        seconds: length of a window, in seconds.
        longest_gap: longest time between two readings for interpolation, in seconds.
        net: whether the power, and therefore a window, may be negative.
    """

    def __init__(self, seconds: int, longest_gap: float, *, net: bool = False) -> None:
        self._windows = EdgeWindows(seconds, net=net)
        self._longest_gap = longest_gap
        self._last: tuple[float, float] | None = None
        self._wh = 0.0

    def forget(self) -> None:
        """Discard earlier readings, which are not comparable with later ones."""
        self._last = None
        self._windows.forget()

    def add(self, instant: float, values: tuple[float, ...]) -> list[tuple[int, int]]:
        """Add a reading, unless it is no later than the previous one.

        Args:
            instant: Unix time, in seconds.
            values: the meter's powers in W; may be negative only with `net`.

        Returns:
            (number, Wh) of each window that this reading completes.
        """
        watts = sum(values)
        if self._last is not None and instant <= self._last[0]:
            return []
        begin = instant, self._wh
        if self._last is None or instant - self._last[0] > self._longest_gap:
            self._windows.forget()
        else:
            before, power = self._last
            begin = before, self._wh
            self._wh += (power + watts) / 2 * (instant - before) / _HOUR
        self._last = instant, watts
        return self._windows.add(begin, (instant, self._wh))
