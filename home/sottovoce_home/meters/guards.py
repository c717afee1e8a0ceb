"""Guards that check each reading before it is accepted; each guard refuses one kind of wrong reading."""

from sottovoce.errors import MessageRefused

_MAX_AHEAD_SECONDS = 300.0


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
        latest: maximum age of another reading, in seconds.
        replay: whether times in the past are allowed.
    """

    def __init__(self, longest_gap: float, latest: float, *, replay: bool) -> None:
        self._longest_gap = longest_gap
        self._latest = latest
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
        if now - measured > self._latest and not self._replay:
            raise MessageRefused(
                "stale", "the reading is too old; set the meter's clock, or declare how late it may be: latest"
            )


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
