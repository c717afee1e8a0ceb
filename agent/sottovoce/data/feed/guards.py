"""Guards that check each reading before it counts. Each covers one way in which meters mislead."""

from sottovoce.errors import MessageRefused

SLACK_SECONDS = 60.0
_AHEAD = 300.0
_BEHIND = 900.0
_HOUR = 3600.0
_AGREEING = 3


class OneTopic:
    """Guard that accepts only the first topic, since a filter may cover several topics and so several meters.

    This guards against accidents. To exclude a neighbour's meter, declare the meter's identity or topic.
    """

    def __init__(self) -> None:
        self._topic: str | None = None

    def check(self, topic: str) -> None:
        """Refuse every topic but the first.

        Raises:
            MessageRefused: if the topic is not the first one.
        """
        if self._topic is None:
            self._topic = topic
        elif topic != self._topic:
            raise MessageRefused("another-topic", "the filter covers several topics; name one of them")


class Fresh:
    """Guard against old readings: a broker delivers retained messages of any age, and meters' clocks are wrong.

    Args:
        longest_gap: seconds that a retained reading may be old.
        replay: whether times in the past are allowed.
    """

    def __init__(self, longest_gap: float, replay: bool) -> None:
        self._longest_gap = longest_gap
        self._replay = replay

    def check(self, retained: bool, measured: float | None, now: float) -> None:
        """Refuse a reading that is not current.

        Args:
            retained: whether the broker marked the message as retained.
            measured: time of measurement, Unix time, if the payload states it.
            now: Unix time.

        Raises:
            MessageRefused: if it is retained and of old or unknown age, or measured too long ago or in the future.
        """
        if retained and (measured is None or now - measured > self._longest_gap):
            raise MessageRefused(
                "retained", "the message that the broker retained may not be new; the next one will be"
            )
        if measured is None:
            return
        if measured - now > _AHEAD:
            raise MessageRefused("ahead", "measured in the future; set the clocks of the meter and of this device")
        if now - measured > _BEHIND and not self._replay:
            raise MessageRefused("stale", "measured too long ago; set the meter's clock, or declare a replay")


class Newer:
    """Guard that requires each reading to be newer than the last; duplicates and late readings are refused.

    Attributes:
        last: time of measurement of the newest reading, Unix time.
    """

    def __init__(self) -> None:
        self.last = float("-inf")

    def check(self, measured: float) -> None:
        """Refuse a reading that is not after the last.

        Raises:
            MessageRefused: if it is a duplicate, or late.
        """
        if measured <= self.last:
            raise MessageRefused("not-newer", "measured no later than the reading before; a duplicate, or late")
        self.last = measured


class Counting:
    """Guard that requires a counter to rise no faster than the largest plausible power; a net counter may fall as fast.

    A value that does not continue the previous one is refused until three consecutive values continue one another. Then
    a new count begins, because the meter was reset or replaced or its register overflowed; the energy between is
    missing.

    After a start, meters report 0 until they have found their count. So a counter that is the entire count of its meter
    begins with its first value above 0. One of several tariffs may well be 0, and so may a net count.

    Args:
        max_watts: the largest plausible power.
        resolution: the smallest step of the counter, Wh.
        alone: whether it is the whole count of its meter.
        net: whether it falls while energy is fed in.

    Attributes:
        restarts: number of new counts that have begun.
    """

    def __init__(self, max_watts: float, resolution: float, *, alone: bool, net: bool) -> None:
        self.restarts = 0
        self._max_watts = max_watts
        self._resolution = resolution
        self._zeros = not alone or net
        self._net = net
        self._last: tuple[float, float] | None = None
        self._apart: list[tuple[float, float]] = []

    def check(self, tick: float, wh: float) -> bool:
        """Accept a value, or refuse it.

        Args:
            tick: time of the value, seconds on any clock.
            wh: the counter, Wh.

        Returns:
            whether it continues the previous value; otherwise a new count begins.

        Raises:
            MessageRefused: if the value is negative or a first 0, or it fell or jumped.
        """
        if wh < 0 and not self._net:
            raise MessageRefused("range", "a counter below 0; if it falls while energy is fed in, set net = true")
        if self._last is not None and self._continues(self._last, (tick, wh)):
            self._last = tick, wh
            self._apart.clear()
            return True
        if wh == 0 and not self._zeros:
            raise MessageRefused(
                "zero-start" if self._last is None else "fell",
                "a counter that reads 0 may not have recovered its count yet",
            )
        if self._last is not None:
            self._check_new_count(self._last[1], (tick, wh))
        self._last = tick, wh
        return False

    def _check_new_count(self, before: float, reading: tuple[float, float]) -> None:
        if self._apart and not self._continues(self._apart[-1], reading):
            self._apart.clear()
        self._apart.append(reading)
        if len(self._apart) < _AGREEING:
            if reading[1] < before:
                raise MessageRefused("fell", "a counter that falls; three such readings in a row begin a new count")
            raise MessageRefused("jumped", "a counter that rises faster than the largest plausible power")
        self._apart.clear()
        self.restarts += 1

    def _continues(self, before: tuple[float, float], after: tuple[float, float]) -> bool:
        most = self._max_watts * (after[0] - before[0] + SLACK_SECONDS) / _HOUR + self._resolution
        return (-most if self._net else 0.0) <= after[1] - before[1] <= most


class InRange:
    """Guard that requires a power between 0 and the largest plausible one; a net power may be as far below 0.

    Args:
        max_watts: the largest plausible power.
        net: whether the power is net.
    """

    def __init__(self, max_watts: float, *, net: bool) -> None:
        self._min_watts = -max_watts if net else 0.0
        self._max_watts = max_watts

    def check(self, watts: float) -> None:
        """Refuse a value outside the range.

        Raises:
            MessageRefused: if the value is outside.
        """
        if not self._min_watts <= watts <= self._max_watts:
            raise MessageRefused("range", "a power beyond the largest plausible one, or below 0 of a meter without net")
