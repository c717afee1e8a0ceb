"""Guards that check each reading before it is accepted; each guard refuses one kind of wrong reading."""

from sottovoce.errors import MessageRefused

SLACK_SECONDS = 60.0
_MAX_AHEAD_SECONDS = 300.0
_MAX_AGE_SECONDS = 900.0
_HOUR = 3600.0
_READINGS_FOR_RESET = 3


class SingleTopicGuard:
    """Guard that accepts only the first topic, because a filter may match several topics and therefore several meters.

    This prevents accidents. To exclude a neighbour's meter, declare the meter's identity or topic.
    """

    def __init__(self) -> None:
        self._topic: str | None = None

    def check(self, topic: str) -> None:
        """Check that a message has the first topic that was seen.

        Raises:
            MessageRefused: if the message has a different topic.
        """
        if self._topic is None:
            self._topic = topic
        elif topic != self._topic:
            raise MessageRefused("another-topic", "the filter matches multiple topics; specify one of them")


class FreshnessGuard:
    """Guard against old readings, because brokers deliver retained messages of any age and meter clocks may be wrong.

    Args:
        longest_gap: maximum age of a retained reading, in seconds.
        replay: whether times in the past are allowed.
    """

    def __init__(self, longest_gap: float, replay: bool) -> None:
        self._longest_gap = longest_gap
        self._replay = replay

    def check(self, retained: bool, measured: float | None, now: float) -> None:
        """Check that a reading is current.

        Args:
            retained: whether the broker marked the message as retained.
            measured: measurement time, as Unix time in seconds, if the payload contains it.
            now: current Unix time, in seconds.

        Raises:
            MessageRefused: if the message is retained and its age is too high or unknown, or the reading was measured
                too long ago or in the future.
        """
        if retained and (measured is None or now - measured > self._longest_gap):
            raise MessageRefused(
                "retained", "the broker's retained message may be out of date; the next message will be current"
            )
        if measured is None:
            return
        if measured - now > _MAX_AHEAD_SECONDS:
            raise MessageRefused(
                "ahead", "the reading's time is in the future; set the clocks of the meter and of this device"
            )
        if now - measured > _MAX_AGE_SECONDS and not self._replay:
            raise MessageRefused("stale", "the reading is too old; set the meter's clock, or declare a replay")


class OrderGuard:
    """Guard that requires each reading to be newer than the last, and refuses duplicates and late readings.

    Attributes:
        last: measurement time of the newest reading, as Unix time in seconds.
    """

    def __init__(self) -> None:
        self.last = float("-inf")

    def check(self, measured: float) -> None:
        """Check that a reading was measured after the last one.

        Raises:
            MessageRefused: if the reading is a duplicate or late.
        """
        if measured <= self.last:
            raise MessageRefused("not-newer", "the reading is not newer than the last one; it is a duplicate or late")
        self.last = measured


class CounterGuard:
    """Guard that limits a counter's rate of increase to the largest plausible power; a net counter may fall as fast.

    A value that does not continue the previous one is refused until three consecutive values continue one another. Then
    a new count begins, because the meter was reset or replaced or its register overflowed; the energy in between is
    missing.

    After a start, meters report 0 until they have recovered their count. Therefore, a meter's only counter begins
    with its first value above 0. A counter for one of several tariffs may really be at 0, and so may a net counter.

    Args:
        max_watts: largest plausible power, in W.
        resolution: smallest step of the counter, in Wh.
        is_only_counter: whether this is the meter's only counter.
        net: whether the counter falls while energy is exported.

    Attributes:
        restarts: number of new counts that have begun.
    """

    def __init__(self, max_watts: float, resolution: float, *, is_only_counter: bool, net: bool) -> None:
        self.restarts = 0
        self._max_watts = max_watts
        self._resolution = resolution
        self._accepts_zero = not is_only_counter or net
        self._net = net
        self._last: tuple[float, float] | None = None
        self._candidates: list[tuple[float, float]] = []

    def check(self, tick: float, wh: float) -> bool:
        """Check a counter value.

        Args:
            tick: time of the value, in seconds on any clock.
            wh: counter value, in Wh.

        Returns:
            Whether the value continues the previous one; otherwise a new count begins.

        Raises:
            MessageRefused: if the value is negative, fell, rose implausibly fast, or is a 0 that the meter may report
                before it has recovered its count.
        """
        if wh < 0 and not self._net:
            raise MessageRefused(
                "range", "the counter is below 0; if it falls while energy is exported, set net = true"
            )
        if self._last is not None and self._continues(self._last, (tick, wh)):
            self._last = tick, wh
            self._candidates.clear()
            return True
        if wh == 0 and not self._accepts_zero:
            raise MessageRefused(
                "zero-start" if self._last is None else "fell",
                "the counter is 0; the meter may not have recovered its count yet",
            )
        if self._last is not None:
            self._check_new_count(self._last[1], (tick, wh))
        self._last = tick, wh
        return False

    def _check_new_count(self, before: float, reading: tuple[float, float]) -> None:
        if self._candidates and not self._continues(self._candidates[-1], reading):
            self._candidates.clear()
        self._candidates.append(reading)
        if len(self._candidates) < _READINGS_FOR_RESET:
            if reading[1] < before:
                raise MessageRefused(
                    "fell", "the counter decreased; three such readings in a row are treated as a counter reset"
                )
            raise MessageRefused("jumped", "the counter rose faster than the largest plausible power")
        self._candidates.clear()
        self.restarts += 1

    def _continues(self, before: tuple[float, float], after: tuple[float, float]) -> bool:
        max_change = self._max_watts * (after[0] - before[0] + SLACK_SECONDS) / _HOUR + self._resolution
        return (-max_change if self._net else 0.0) <= after[1] - before[1] <= max_change


class RangeGuard:
    """Guard that requires a power reading between 0 and the largest plausible power.

    A net power may also be negative, down to the negative of the largest plausible power.

    Args:
        max_watts: largest plausible power, in W.
        net: whether the power is net.
    """

    def __init__(self, max_watts: float, *, net: bool) -> None:
        self._min_watts = -max_watts if net else 0.0
        self._max_watts = max_watts

    def check(self, watts: float) -> None:
        """Check that a power is in the plausible range.

        Raises:
            MessageRefused: if the power is outside the range.
        """
        if not self._min_watts <= watts <= self._max_watts:
            raise MessageRefused("range", "the power exceeds the meter's max_power, or is below 0 without net = true")
