"""What every privacy unit has been charged: events composed unit by unit.

An event costs the units it touches and no others (parallel composition, McSherry 2009, Theorem 4; block by block and
adaptively: Lécuyer et al. 2019, Theorem 4.3). So a new unit, such as a meter's new day, comes with a budget of its own,
and an old one gets none back.
"""

import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from sottovoce.accounting.events import Event, Moved, over
from sottovoce.accounting.gaussian import composed, gaussian_epsilon
from sottovoce.accounting.units import EVERY, LAST, Units

if TYPE_CHECKING:
    from sottovoce.accounting.sampled import SampledGaussian

Part = tuple[float, float, "SampledGaussian | None"]  # μ² of the closed form, pure ε, the event where it is sampled
Parts = Counter[Part]


class Tally:
    """Events by unit. It only grows.

    Args:
        delta: the δ at which ε is told.
    """

    def __init__(self, delta: float) -> None:
        self._delta = delta
        self._runs: dict[tuple[int, int], Parts] = {}
        self._single: dict[int, Parts] = {}
        self._known: dict[Part, Parts] = {}

    def add(self, event: Event) -> None:
        """Charge an event to the units it touches."""
        part = part_of(event)
        for first, last in event.units.spans:
            if first < last:
                self._runs.setdefault((first, last), Counter())[part] += 1
            elif (parts := self._single.get(first)) is None:
                # Most units that are charged alone are charged once: one object will do for all of them.
                self._single[first] = self._known.setdefault(part, Counter({part: 1}))
            else:
                self._single[first] = parts + Counter({part: 1})

    def epsilon(self, units: Units = EVERY, event: Event | None = None) -> float:
        """ε of the unit charged most among `units`, after `event` too; rounded up, and infinite where nothing holds."""
        extra = Counter([part_of(event)]) if event is not None else Counter()
        seen = {frozenset((self._at(unit) + extra).items()) for span in units.spans for unit in self._risen(*span)}
        return max(_price(parts, self._delta) for parts in seen)

    def payable(self, event: Event, epsilon: float) -> Units | None:
        """Those units of `event` that can pay for it out of a budget of `epsilon`; None when there is none.

        An event that touches every unit is paid for by all of them or not at all.
        """
        if event.units == EVERY:
            return EVERY if all(self._pays(unit, event, epsilon) for unit in self._risen(*EVERY.spans[0])) else None
        spans: list[tuple[int, int]] = []
        for first, last in self._pieces(event.units):
            if not self._pays(first, event, epsilon):
                continue
            if spans and spans[-1][1] == first - 1:
                first = spans.pop()[0]
            spans.append((first, last))
        return Units(tuple(spans)) if spans else None

    def _pays(self, unit: int, event: Event, epsilon: float) -> bool:
        """Whether one unit's charges and this one are within ε."""
        return _within(frozenset((self._at(unit) + Counter([part_of(event)])).items()), epsilon, self._delta)

    def _at(self, unit: int) -> Parts:
        """All that one unit was charged."""
        parts = Counter(self._single.get(unit, ()))
        for (first, last), added in self._runs.items():
            if first <= unit <= last:
                parts += added
        return parts

    def _risen(self, first: int, last: int) -> Iterator[int]:
        """Units of a run, one at least wherever some run begins: nowhere else has a unit more to pay."""
        yield first
        for start, _ in self._runs:
            if first < start <= last:
                yield start
        if first == last:
            return
        if self._runs.keys() <= {(0, LAST)}:  # then units charged alike have paid alike
            unlike = {id(parts): unit for unit, parts in self._single.items() if first <= unit <= last}
            yield from unlike.values()
        else:
            yield from (unit for unit in self._single if first <= unit <= last)

    def _pieces(self, units: Units) -> Iterator[tuple[int, int]]:
        """`units` in runs, within each of which all units have paid alike."""
        if all(first == last for first, last in units.spans):
            yield from units.spans
            return
        edges = {edge for start, end in self._runs for edge in (start, end + 1)}
        edges |= {edge for unit in self._single for edge in (unit, unit + 1)}
        for first, last in units.spans:
            starts = [first, *sorted(edge for edge in edges if first < edge <= last)]
            yield from zip(starts, [*(start - 1 for start in starts[1:]), last], strict=True)


def part_of(event: Event) -> Part:
    """What composition needs to know of an event."""
    closed = event.mu_squared > 0 or event.epsilon > 0 or isinstance(event, Moved)
    return event.mu_squared, event.epsilon, None if closed else cast("SampledGaussian", over(event, EVERY))


@lru_cache(maxsize=1024)
def _price(parts: frozenset[tuple[Part, int]], delta: float) -> float:
    """ε of one unit, rounded up: μ² adds up, so does pure ε, and what is sampled composes as losses do."""
    mu_squared, pure, sampled = _sums(parts)
    if not sampled or math.isinf(pure):
        return composed(gaussian_epsilon(math.sqrt(mu_squared), delta), pure)
    from sottovoce.accounting.sampled import sampled_epsilon  # not needed where every release touches every record

    return sampled_epsilon(mu_squared, pure, sampled, delta)


@lru_cache(maxsize=1024)
def _within(parts: frozenset[tuple[Part, int]], epsilon: float, delta: float) -> bool:
    """Whether `_price` is at most ε; quick where releases are sampled, too."""
    mu_squared, pure, sampled = _sums(parts)
    if not sampled or math.isinf(pure):
        return _price(parts, delta) <= epsilon
    from sottovoce.accounting.sampled import affordable

    return affordable(epsilon, mu_squared, pure, sampled, delta)


def _sums(parts: frozenset[tuple[Part, int]]) -> tuple[float, float, "dict[SampledGaussian, int]"]:
    """Σ μ², Σ ε, and how often each sampled event."""
    return (
        math.fsum(count * part[0] for part, count in parts),
        _sum_up([(part[1], count) for part, count in parts]),
        {event: count for (_, _, event), count in parts if event is not None},
    )


def _sum_up(terms: list[tuple[float, int]]) -> float:
    """Σ count · ε, rounded up; exact when a float can hold it."""
    if any(math.isinf(epsilon) for epsilon, _ in terms):
        return math.inf
    exact = sum((count * Fraction(epsilon) for epsilon, count in terms), Fraction(0))
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)
