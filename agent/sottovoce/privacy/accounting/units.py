"""Sets of privacy units that a charge touches.

A unit is a record's index, a window's day number, or 0 for the device.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from sottovoce.errors import PrivacyError

LAST = 2**63 - 1  # the largest unit number


@dataclass(frozen=True, slots=True)
class Units:
    """A set of units.

    Attributes:
        spans: first and last unit of each run, both inclusive; ascending, not adjacent, and not empty.
    """

    spans: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        """Raise PrivacyError if the spans are not a set of units, or if the set is empty."""
        adjacent = -1
        for first, last in self.spans:
            if not adjacent < first <= last <= LAST:
                raise PrivacyError(
                    "the unit runs of a charge are not in ascending order with gaps between them: this is a "
                    "bug; please report it"
                )
            adjacent = last + 1
        if not self.spans:
            raise PrivacyError("a charge covers no units, although every result computed from records has a cost")

    @property
    def count(self) -> int:
        """Return the number of units."""
        return sum(last - first + 1 for first, last in self.spans)

    @classmethod
    def of(cls, numbers: Iterable[int]) -> Self:
        """Return the set of units with the given numbers.

        Raises:
            PrivacyError: if `numbers` is empty.
        """
        spans: list[tuple[int, int]] = []
        for number in sorted(set(numbers)):
            if spans and spans[-1][1] == number - 1:
                spans[-1] = spans[-1][0], number
            else:
                spans.append((number, number))
        return cls(tuple(spans))


EVERY = Units(((0, LAST),))


def overlap(left: Units, right: Units) -> Units | None:
    """Return the intersection of two sets; None if it is empty."""
    intersections = ((max(a, c), min(b, d)) for a, b in left.spans for c, d in right.spans)
    spans = tuple(sorted((first, last) for first, last in intersections if first <= last))
    return Units(spans) if spans else None


def union(*sets: Units) -> Units:
    """Return the union of all sets."""
    spans: list[tuple[int, int]] = []
    for first, last in sorted(span for units in sets for span in units.spans):
        if spans and first <= spans[-1][1] + 1:
            spans[-1] = spans[-1][0], max(last, spans[-1][1])
        else:
            spans.append((first, last))
    return Units(tuple(spans))
