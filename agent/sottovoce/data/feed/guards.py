"""What a reading must pass before it counts. Each guard knows one way in which meters lie."""

from sottovoce.errors import MessageRefused

SLACK_SECONDS = 60.0
_AHEAD = 300.0
_BEHIND = 900.0
_HOUR = 3600.0
_AGREEING = 3


class OneTopic:
    """A filter may cover several topics, and so several meters: the first that is heard is the meter's.

    This is against accidents. Against a neighbour's meter, declare its identity or its topic.
    """

    def __init__(self) -> None:
        self._topic: str | None = None

    def check(self, topic: str) -> None:
        """Refuse every topic but the first.

        Raises:
            MessageRefused: another meter's.
        """
        if self._topic is None:
            self._topic = topic
        elif topic != self._topic:
            raise MessageRefused("another-topic", "the filter covers several topics; name one of them")


class Fresh:
    """A broker hands out what it retained, however old that is; and clocks of meters are wrong.

    Args:
        longest_gap: seconds that a retained reading may be old.
        replay: whether times of the past are no mistake.
    """

    def __init__(self, longest_gap: float, replay: bool) -> None:
        self._longest_gap = longest_gap
        self._replay = replay

    def check(self, retained: bool, measured: float | None, now: float) -> None:
        """Refuse what is not from now.

        Args:
            retained: whether the broker says so.
            measured: when it was measured, if the payload says it; Unix time.
            now: Unix time.

        Raises:
            MessageRefused: retained and of unknown or old age, or measured too long ago, or in the future.
        """
        if retained and (measured is None or now - measured > self._longest_gap):
            raise MessageRefused("retained", "what the broker retained is not known to be new; the next one will be")
        if measured is None:
            return
        if measured - now > _AHEAD:
            raise MessageRefused("ahead", "measured in the future; set the clocks of the meter and of this device")
        if now - measured > _BEHIND and not self._replay:
            raise MessageRefused("stale", "measured too long ago; set the meter's clock, or declare a replay")


class Newer:
    """Each reading is measured after the one before: duplicates and late ones change nothing."""

    def __init__(self) -> None:
        self._last = float("-inf")

    def check(self, measured: float) -> None:
        """Refuse what is not after the last.

        Raises:
            MessageRefused: a duplicate, or late.
        """
        if measured <= self._last:
            raise MessageRefused("not-newer", "measured no later than the reading before; a duplicate, or late")
        self._last = measured


class Rising:
    """A counter only rises, and not faster than the largest plausible power.

    Alone it begins with its first value above 0: meters say 0 until they have found their count after a start. Of
    several tariffs one may well be 0. A fall is
    refused for good, because a new meter and a broken one look the same; starting the feed again begins anew. A jump is
    refused until three readings in a row agree on it: then counting goes on from there, and what lies between is
    missing.

    Args:
        most_watts: the largest plausible power.
        resolution: the smallest step of the counter, Wh.
        alone: whether it is the whole count of its meter.
    """

    def __init__(self, most_watts: float, resolution: float, *, alone: bool) -> None:
        self._alone = alone
        self._most_watts = most_watts
        self._resolution = resolution
        self._last: tuple[float, float] | None = None
        self._jumped: list[tuple[float, float]] = []

    def check(self, tick: float, wh: float) -> bool:
        """Accept a value, or refuse it.

        Args:
            tick: when, seconds on any clock.
            wh: the counter, Wh.

        Returns:
            whether it continues the one before; else it is a new beginning.

        Raises:
            MessageRefused: it is negative or a first 0, it fell, or it jumped.
        """
        if wh < 0:
            raise MessageRefused("range", "a counter below 0")
        if self._last is None:
            if wh == 0 and self._alone:
                raise MessageRefused("zero-start", "a counter that says 0 may not have found its count yet")
            self._last = tick, wh
            return False
        if wh < self._last[1]:
            self._jumped.clear()
            raise MessageRefused("fell", "a counter that falls; if the meter was replaced, start the feed again")
        if self._plausible(self._last, (tick, wh)):
            self._last = tick, wh
            self._jumped.clear()
            return True
        if self._jumped and not (wh >= self._jumped[-1][1] and self._plausible(self._jumped[-1], (tick, wh))):
            self._jumped.clear()
        self._jumped.append((tick, wh))
        if len(self._jumped) < _AGREEING:
            raise MessageRefused("jumped", "a counter that rises faster than the largest plausible power")
        self._last = self._jumped[-1]
        self._jumped.clear()
        return False

    def _plausible(self, before: tuple[float, float], after: tuple[float, float]) -> bool:
        elapsed = after[0] - before[0]
        return after[1] - before[1] <= self._most_watts * (elapsed + SLACK_SECONDS) / _HOUR + self._resolution


class InRange:
    """A power lies between 0 and the largest plausible one.

    Args:
        most_watts: that power.
    """

    def __init__(self, most_watts: float) -> None:
        self._most_watts = most_watts

    def check(self, watts: float) -> None:
        """Refuse what does not.

        Raises:
            MessageRefused: it does not.
        """
        if not 0 <= watts <= self._most_watts:
            raise MessageRefused("range", "a power below 0 or above the largest plausible one")
