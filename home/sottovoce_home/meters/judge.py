"""Judgement of a counter's readings, of which some later ones show that earlier ones were wrong."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from sottovoce.errors import MessageRefused

_HOUR = 3600.0
_DAY = 86_400.0
_JITTER_SECONDS = 60.0
"""How late a message may be in relation to the one before it; a message a second is never a minute late."""
_CONFIRM_SECONDS = 60.0
"""A reading is believed when the count continues for so long: bridges repeat a wrong state for some seconds."""
_RESET_SECONDS = 900.0
"""How long a count may be away before another one replaces it: tools report wrong counts for minutes after a start."""
_READINGS_FOR_RESET = 3
_MAX_TAKEN_BACK = 2  # number of different values; more of them are a count of their own
_MAX_TRACKS = 4


class Count(NamedTuple):
    """A value of a counter, and how long the counter showed it.

    Attributes:
        first: Unix time of the first reading with this value, in seconds.
        last: Unix time of the last one.
        values: the meter's counters, in Wh.
        readings: number of readings.
        seen: Unix time of the last reading; later than `last` if it repeats the value once after a silence, which is
            what a bridge does that has stored its last state.
    """

    first: float
    last: float
    values: tuple[float, ...]
    readings: int
    seen: float

    @property
    def total(self) -> float:
        """Sum of the counters, in Wh."""
        return sum(self.values)

    def repeated(self, time: float, silence: float) -> "Count":
        """Return this value with one more reading.

        Args:
            time: Unix time of the reading, in seconds.
            silence: time without readings, in seconds, after which one repetition proves nothing.
        """
        last = time if time - self.seen <= silence or self.seen > self.last else self.last
        return self._replace(last=last, readings=self.readings + 1, seen=time)


class Step(NamedTuple):
    """Two values of one count, the second of which follows the first; without a first one, a count begins."""

    before: Count | None
    after: Count


class _Track(NamedTuple):
    """A possible count: its last confirmed value, if it has one, and all later ones.

    Attributes:
        counts: values, in order of time.
        readings: number of readings since the last confirmed value.
        is_new: whether the track is not a continuation of the previous count.
    """

    counts: tuple[Count, ...]
    readings: int
    is_new: bool


class CounterJudge:
    """Judge of a counter's readings, which confirms a value when later readings continue from it.

    A reading that does not continue the count is kept as the possible beginning of another one. If the count then
    continues, the other one was wrong. If the other one rises and the count does not continue for a quarter of an
    hour, the meter was reset or replaced or its register overflowed: a new count begins, and the energy in between is
    missing.
    If a reading continues the count as it was before its last values, these were wrong.

    Args:
        max_watts: largest plausible power, in W.
        resolution: smallest step of the counter, in Wh.
        silence: time without readings, in seconds, after which a bridge may repeat a stored state.
        net: whether the counter falls while energy is exported.
        counts: values with which the count continues, in order of time: those of an earlier process.

    Attributes:
        restarts: number of new counts that have begun.
    """

    def __init__(
        self, max_watts: float, resolution: float, silence: float, *, net: bool, counts: Sequence[Count] = ()
    ) -> None:
        self.restarts = 0
        self._max_watts = max_watts
        self._resolution = resolution
        self._silence = silence
        self._net = net
        self._tracks = [_Track(tuple(counts), 0, is_new=False)] if counts else []
        self._begins = not counts
        self._watts = 0.0

    @property
    def counts(self) -> tuple[Count, ...]:
        """The last confirmed value and the later ones of the most likely count."""
        return self._tracks[0].counts if self._tracks else ()

    def add(self, time: float, values: tuple[float, ...]) -> list[Step]:
        """Judge a reading.

        Args:
            time: Unix time, in seconds, later than the previous one.
            values: the meter's counters, in Wh.

        Returns:
            The steps that this reading confirms.

        Raises:
            MessageRefused: if the reading does not continue the count.
        """
        if self._tracks and time <= max(track.counts[-1].seen for track in self._tracks):
            raise MessageRefused("not-newer", "the reading is not newer than the last one; it is a duplicate or late")
        self._check_zeros(time, values)
        reading = Count(time, time, values, 1, time)
        if not self._tracks:
            self._tracks = [_Track((reading,), 1, is_new=False)]
            return []
        source, extended = self._extended(reading)
        known = [track for track in self._tracks if not track.is_new and track is not source]
        if not extended.is_new:
            # Of two versions of the count, one loses as soon as the other one has more readings.
            rivals = [track for track in known if track.readings >= extended.readings]
            self._tracks = [*rivals, extended]
        elif self._replaces(extended):
            self.restarts += 1
            self._begins = True
            self._tracks = [extended._replace(is_new=False)]
        else:
            others = [track for track in self._tracks if track.is_new and track is not source]
            self._tracks = [*known, extended, *others[: _MAX_TRACKS - 1]]
            if sum(values) < known[0].counts[-1].total:
                raise MessageRefused(
                    "fell", "the counter decreased; if it stays there for a quarter of an hour, it has been reset"
                )
            raise MessageRefused("jumped", "the counter rose faster than the largest plausible power")
        return self._confirmed() if len(self._tracks) == 1 else []

    def _check_zeros(self, time: float, values: tuple[float, ...]) -> None:
        """Refuse values of 0 that a tool reports before it has recovered its counts.

        A counter that has been above 0 may really be at 0 after a day of zeros. A meter's only counter, and all of its
        counters together, begin with their first value above 0.
        """
        if self._net:
            return
        if min(values) < 0:
            raise MessageRefused(
                "range", "the counter is below 0; if it falls while energy is exported, set net = true"
            )
        if not any(values):
            raise MessageRefused(
                "fell" if self._tracks else "zero-start",
                "the counter is 0; the meter may not have recovered its count yet",
            )
        if self._tracks:
            newest = self._tracks[0].counts[-1]
            if time - newest.seen < _DAY and any(
                new == 0 < old for new, old in zip(values, newest.values, strict=True)
            ):
                raise MessageRefused("fell", "a counter is 0; the meter may not have recovered its count yet")

    def _extended(self, reading: Count) -> tuple[_Track | None, _Track]:
        """Return the track that a reading extends, or None if another version or a new track begins, and the result."""
        # Time makes a count plausible that jumped or fell long ago, so the track counts that predicts the reading best.
        found = [
            (abs(self._predicted(track.counts[-1], reading.first) - reading.total), number, counts)
            for number, track in enumerate(self._tracks)
            if (counts := self._continued(track.counts, reading)) is not None
        ]
        known = [track for track in self._tracks if not track.is_new]
        if not found:
            version = self._shortened(known, reading)
            return None, version or _Track((reading,), 1, is_new=True)
        _, number, counts = min(found)
        track = self._tracks[number]
        if track.is_new and len(track.counts) == 1:
            # A single reading that differed from the count is wrong more often than the last of many is.
            longer = [other for other in self._tracks if other.is_new and len(other.counts) > _MAX_TAKEN_BACK]
            if (version := self._shortened([*known, *longer], reading)) is not None:
                return None, version
        return track, _Track(counts, track.readings + 1, track.is_new)

    def _shortened(self, tracks: Sequence[_Track], reading: Count) -> _Track | None:
        """Return the first track that a reading extends once its last values are dropped, as another version of it."""
        for track in tracks:
            for dropped in range(1, min(_MAX_TAKEN_BACK + 1, len(track.counts))):
                if (counts := self._continued(track.counts[:-dropped], reading)) is not None:
                    lost = sum(count.readings for count in track.counts[-dropped:])
                    return _Track(counts, track.readings - lost + 1, track.is_new)
        return None

    def _predicted(self, count: Count, time: float) -> float:
        """Return the total of a count, in Wh, that has continued at the last confirmed power."""
        return count.total + self._watts * (time - count.first) / _HOUR

    def _continued(self, counts: tuple[Count, ...], reading: Count) -> tuple[Count, ...] | None:
        """Return values with a reading that continues them; None if it does not."""
        last = counts[-1]
        if reading.values == last.values and not self._net:
            return (*counts[:-1], last.repeated(reading.first, self._silence))
        elapsed = reading.first - last.first  # a coarse counter shows at once what has passed since its last step
        most = self._max_watts * (elapsed + min(elapsed, _JITTER_SECONDS)) / _HOUR + self._resolution
        rises = [new - old for new, old in zip(reading.values, last.values, strict=True)]
        least = -most if self._net else 0.0
        if min(rises) < least or max(rises) > most or not least <= sum(rises) <= most:
            return None
        return (*counts, reading)

    def _replaces(self, track: _Track) -> bool:
        begin, end = track.counts[0], track.counts[-1]
        return (
            track.readings >= _READINGS_FOR_RESET and len(track.counts) > 1 and end.seen - begin.first >= _RESET_SECONDS
        )

    def _confirmed(self) -> list[Step]:
        """Return the steps to values after which the count has gone on for long enough, and begin with the last."""
        track = self._tracks[0]
        counts, end = track.counts, track.counts[-1].seen
        number = sum(end - count.first >= _CONFIRM_SECONDS for count in counts)  # times increase
        steps = [Step(None, counts[0])] if self._begins and number else []
        steps += [Step(before, after) for before, after in itertools.pairwise(counts[:number])]
        self._begins = self._begins and not number
        if number > 1:
            first, kept = counts[0], counts[number - 1 :]
            self._watts = (kept[0].total - first.total) / (kept[0].first - first.first) * _HOUR
            self._tracks = [_Track(kept, sum(count.readings for count in kept[1:]), is_new=False)]
        return steps
