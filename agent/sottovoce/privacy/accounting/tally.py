"""Charges to every privacy unit, composed separately for each unit.

An event costs only the units that it touches (parallel composition, McSherry 2009, Theorem 4; for adaptive composition
by block, see Lécuyer et al. 2019, Theorem 4.3). A new unit, such as a meter's new day, therefore has a separate budget,
and an old unit never recovers any of its budget.
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from sottovoce.errors import TaskRefused
from sottovoce.privacy.accounting.events import Event, LedgerMove, with_units
from sottovoce.privacy.accounting.gaussian import gaussian_epsilon, sum_epsilons
from sottovoce.privacy.accounting.units import EVERY, LAST, Units

if TYPE_CHECKING:
    from sottovoce.privacy.accounting.sampled import SampledGaussian

Part = tuple[float, float, "SampledGaussian | None"]  # μ² of the closed form, pure ε, the event if it is sampled
Parts = frozenset[tuple[Part, int]]
"""All charges to one unit, and how often each was made."""

_NO_PARTS: Parts = frozenset()


class Tally:
    """The charges to every privacy unit; charges can be added but not removed.

    Consecutive units with equal charges are stored together as a run. A ledger that covers years has about one run per
    day. Only units that are charged individually, such as records, are stored separately.

    Args:
        delta: the δ at which ε is reported.
    """

    def __init__(self, delta: float) -> None:
        self._delta = delta
        self._starts = [0]  # first units of the runs, ascending; each run ends where the next begins
        self._runs = [_NO_PARTS]
        self._single: dict[int, Parts] = {}

    def add(self, event: Event, changes: int = 1) -> None:
        """Charge an event to the units that it touches, for the number of changes that `convert_charge` returns.

        Raises:
            TaskRefused: if the cost is unknown because the event was not calibrated for `changes` changes.
        """
        part = cost_part(event, changes)
        for first, last in event.units.spans:
            if first == last:
                self._single[first] = _add_part(self._single.get(first, _NO_PARTS), part)
                continue
            begin = self._split_run_at(first)
            end = self._split_run_at(last + 1) if last < LAST else len(self._runs)
            for index in range(begin, end):
                self._runs[index] = _add_part(self._runs[index], part)

    def epsilon(self, units: Units = EVERY, event: Event | None = None) -> float:
        """Return the largest ε among `units`, including `event`; rounded up, infinite if there is no guarantee."""
        distinct = {parts for first, last in units.spans for parts in self._distinct_parts(first, last)}
        if event is not None:
            distinct = {_add_part(parts, cost_part(event)) for parts in distinct}
        return max(_unit_epsilon(parts, self._delta) for parts in distinct)

    def payable_units(self, event: Event, epsilon: float, changes: int = 1) -> Units | None:
        """Return the units of `event` that can pay for it from a budget of `epsilon`; None if there are none.

        An event that touches every unit must be paid for by all of them.

        Raises:
            TaskRefused: see `add`.
        """
        part = cost_part(event, changes)

        def can_pay(parts: Parts) -> bool:
            return _is_affordable(_add_part(parts, part), epsilon, self._delta)

        if event.units == EVERY:
            return EVERY if all(can_pay(parts) for parts in self._distinct_parts(0, LAST)) else None
        spans: list[tuple[int, int]] = []
        for first, last in self._uniform_runs(event.units):
            if not can_pay(self._parts_of_unit(first)):
                continue
            if spans and spans[-1][1] == first - 1:
                first = spans.pop()[0]
            spans.append((first, last))
        return Units(tuple(spans)) if spans else None

    def affordable_repeats(self, epsilon: float) -> float:
        """Return how often the whole tally could be charged before any unit exceeds `epsilon`, within one percent.

        The result is infinite if nothing was charged, and below 1 if a unit already exceeds `epsilon`.
        """
        return min(_affordable_repeats(parts, epsilon, self._delta) for parts in self._distinct_parts(0, LAST))

    def renumber(self) -> "Tally":
        """Return a tally for renumbered units, in which every unit bears the largest charges of any unit so far."""
        largest_counts = Counter[Part]()
        for parts in {*self._runs, *(self._parts_of_unit(unit) for unit in self._single)}:
            largest_counts |= Counter(dict(parts))
        tally = Tally(self._delta)
        tally._runs = [frozenset(largest_counts.items())]
        return tally

    def _split_run_at(self, unit: int) -> int:
        """Return the index of the run that begins at `unit`, splitting the run that contains it if necessary."""
        index = bisect_left(self._starts, unit)
        if index == len(self._starts) or self._starts[index] != unit:
            self._starts.insert(index, unit)
            self._runs.insert(index, self._runs[index - 1])
        return index

    def _parts_of_unit(self, unit: int) -> Parts:
        """Return all charges to one unit."""
        return _merge_parts(self._runs[bisect_right(self._starts, unit) - 1], self._single.get(unit, _NO_PARTS))

    def _distinct_parts(self, first: int, last: int) -> set[Parts]:
        """Return a set that contains all distinct charges of the units from `first` to `last`."""
        begin, end = bisect_right(self._starts, first) - 1, bisect_right(self._starts, last)
        distinct = set(self._runs[begin:end])
        if first == last:
            return {self._parts_of_unit(first)}
        if end - begin == 1:  # in a single run, units with equal individual charges have equal total charges
            individual = {parts for unit, parts in self._single.items() if first <= unit <= last}
            return distinct | {_merge_parts(self._runs[begin], parts) for parts in individual}
        return distinct | {self._parts_of_unit(unit) for unit in self._single if first <= unit <= last}

    def _uniform_runs(self, units: Units) -> Iterator[tuple[int, int]]:
        """Yield the first and last unit of each run in `units`; all units in a run have equal charges."""
        if all(first == last for first, last in units.spans):
            yield from units.spans
            return
        edges = {*self._starts, *(edge for unit in self._single for edge in (unit, unit + 1))}
        for first, last in units.spans:
            starts = [first, *sorted(edge for edge in edges if first < edge <= last)]
            yield from zip(starts, [*(start - 1 for start in starts[1:]), last], strict=True)


# A device that releases regularly fills these caches, each entry of which takes about half a kilobyte.
@lru_cache(maxsize=512)
def _add_part(parts: Parts, part: Part) -> Parts:
    counts = dict(parts)
    counts[part] = counts.get(part, 0) + 1
    return frozenset(counts.items())


@lru_cache(maxsize=512)
def _merge_parts(first: Parts, second: Parts) -> Parts:
    return frozenset((Counter(dict(first)) + Counter(dict(second))).items())


def cost_part(event: Event, changes: int = 1) -> Part:
    """Return the parts of an event's cost that composition needs, for data sets that are `changes` changes apart.

    Raises:
        TaskRefused: if the event is sampled and `changes` is above 1, because that case has no closed form.
    """
    has_closed_form = event.mu_squared > 0 or event.epsilon > 0 or isinstance(event, LedgerMove)
    if not has_closed_form and changes > 1:
        raise TaskRefused(
            "the cost of a sampled release for two changes is unknown; use a task with the ledger's "
            "neighbouring relation"
        )
    sampled = None if has_closed_form else cast("SampledGaussian", with_units(event, EVERY))
    return changes * changes * event.mu_squared, changes * event.epsilon, sampled


@lru_cache(maxsize=256)
def _unit_epsilon(parts: Parts, delta: float) -> float:
    """Return ε for one unit, rounded up; sampled releases compose by their privacy loss distributions."""
    mu_squared, pure, sampled = _cost_sums(parts)
    if not sampled or math.isinf(pure):
        return sum_epsilons(gaussian_epsilon(math.sqrt(mu_squared), delta), pure)
    from sottovoce.privacy.accounting.sampled import sampled_epsilon  # not needed if every release touches every record

    return sampled_epsilon(mu_squared, pure, sampled, delta)


@lru_cache(maxsize=256)
def _is_affordable(parts: Parts, epsilon: float, delta: float) -> bool:
    """Return whether the unit's cost at δ is at most ε; this is also fast for sampled releases."""
    return _is_cost_at_most(epsilon, *_cost_sums(parts), delta)


def _is_cost_at_most(
    epsilon: float, mu_squared: float, pure: float, sampled: "dict[SampledGaussian, int]", delta: float
) -> bool:
    if not sampled or math.isinf(pure):
        return sum_epsilons(gaussian_epsilon(math.sqrt(mu_squared), delta), pure) <= epsilon
    from sottovoce.privacy.accounting.sampled import is_affordable

    return is_affordable(epsilon, mu_squared, pure, sampled, delta)


@lru_cache(maxsize=256)
def _affordable_repeats(parts: Parts, epsilon: float, delta: float) -> float:
    if not parts:
        return math.inf
    low, high = 2.0**-20, 2.0**20
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        mu_squared, pure, sampled = _cost_sums(parts)
        counts = {event: max(1, round(count * middle)) for event, count in sampled.items()}
        if _is_cost_at_most(epsilon, middle * mu_squared, middle * pure, counts, delta):
            low = middle
        else:
            high = middle
    return low


def _cost_sums(parts: Parts) -> tuple[float, float, "dict[SampledGaussian, int]"]:
    """Return Σ μ², Σ ε, and how often each sampled event was charged."""
    return (
        math.fsum(count * part[0] for part, count in parts),
        _sum_up([(part[1], count) for part, count in parts]),
        {event: count for (_, _, event), count in parts if event is not None},
    )


def _sum_up(terms: list[tuple[float, int]]) -> float:
    """Return Σ count · ε, rounded up; exact if a float can represent it."""
    if any(math.isinf(epsilon) for epsilon, _ in terms):
        return math.inf
    exact = sum((count * Fraction(epsilon) for epsilon, count in terms), Fraction(0))
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)
