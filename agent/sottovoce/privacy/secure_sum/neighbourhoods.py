"""The neighbourhoods of a cell: the members with which each member exchanges keys, shares and masks.

In a small cell, every member is a neighbour of every other. In a large one, the members stand in a ring, in an order
that the roster's digest determines, and each has the k/2 members on either side as its neighbours. Every member derives
this graph from the roster itself.

k and t, the number of neighbours that recover a member's secrets, follow Bell, Bonawitz, Gascón, Lepoint and Raykova
2020, by exact hypergeometric tails. Privacy does not rest on these tails: docs/decisions/0054-sparse-secure-sums.md
proves it for every graph, every set of colluding members and every set of survivors that `joins` accepts.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import sha256
from math import comb

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.cell import Cell

MAX_COMPLETE = 128
"""Largest roster whose members are all neighbours whatever `neighbourhood_size` returns."""

_K_STEP = 12
_COLLUSION_ODDS = 2**40  # one random graph in this many has a member with more than c colluding neighbours
_SILENCE_ODDS = 1000  # one round in this many leaves a member with fewer than t neighbours
_RING = b"sottovoce/secure-sum/ring/v1"


@dataclass(frozen=True, slots=True)
class NeighbourhoodSize:
    """The size of every member's neighbourhood.

    Attributes:
        neighbours: number of neighbours, k; even.
        threshold: number of neighbours whose shares recover a member's secrets, t.
    """

    neighbours: int
    threshold: int


@lru_cache(maxsize=64)
def neighbourhood_size(size: int, colluding: int, silent: int) -> NeighbourhoodSize | None:
    """Return the smallest neighbourhoods in multiples of 12, or None if every other member must be a neighbour.

    For a member whose neighbours are drawn at random, c is the number of colluding neighbours that is exceeded with
    probability at most 2^-40 / size. The threshold is the smallest with 2t > k + c, and k is large enough that fewer
    than t neighbours remain with probability at most 10^-3 / size.

    Args:
        size: number of members.
        colluding: number of other members that collude.
        silent: number of other members that may be missing when the sum is opened.
    """
    others = size - 1
    for neighbours in range(_K_STEP, others, _K_STEP):
        corrupt = _upper_bound(others, colluding, neighbours, _COLLUSION_ODDS * size)
        threshold = (neighbours + corrupt) // 2 + 1
        remaining = _lower_bound(others, others - silent, neighbours, _SILENCE_ODDS * size)
        if threshold <= remaining:
            return NeighbourhoodSize(neighbours, threshold)
    return None


def _upper_bound(population: int, marked: int, drawn: int, odds: int) -> int:
    """Return the least c such that more than c of the drawn are marked in at most one of `odds` draws."""
    unmarked, found = population - marked, min(marked, drawn)
    draws = tail = comb(marked, found) * comb(unmarked, drawn - found)
    while tail * odds <= comb(population, drawn):
        draws = draws * found * (unmarked - drawn + found) // ((marked - found + 1) * (drawn - found + 1))
        found -= 1
        tail += draws
    return found


def _lower_bound(population: int, marked: int, drawn: int, odds: int) -> int:
    """Return the greatest t such that fewer than t of the drawn are marked in at most one of `odds` draws."""
    return drawn - _upper_bound(population, population - marked, drawn, odds)


def cell_neighbourhood_size(cell: Cell, size: int) -> NeighbourhoodSize | None:
    """Return the size of the neighbourhoods in a roster; None if it is a complete graph.

    In a sparse graph, all colluding members together do not hold enough shares of a member's secrets, and the members
    that remain are connected unless an unlikely number of neighbours on one side of a member is missing.
    """
    silent = size - cell.opening_threshold(size)
    if size <= MAX_COMPLETE or (sparse := neighbourhood_size(size, cell.colluding, silent)) is None:
        return None
    one_side = _lower_bound(size - 1, size - 1 - silent, sparse.neighbours // 2, _SILENCE_ODDS * size)
    return sparse if cell.colluding < min(sparse.threshold, 2 * one_side) else None


@lru_cache(maxsize=8)
def neighbourhoods(cell: Cell, roster: bytes, size: int) -> "Neighbourhoods":
    """Return the neighbourhoods of a roster, given its digest and its number of members."""
    return Neighbourhoods(cell, roster, size)


@dataclass(frozen=True)
class Neighbourhoods:
    """The neighbourhoods of one roster.

    Attributes:
        cell: the cell's size limits.
        roster: roster digest.
        size: number of members in the roster.
    """

    cell: Cell
    roster: bytes
    size: int

    @cached_property
    def sparse(self) -> NeighbourhoodSize | None:
        """The size of the neighbourhoods; None if every member holds shares of every member's secrets."""
        return cell_neighbourhood_size(self.cell, self.size)

    @property
    def threshold(self) -> int:
        """Number of shares that recover a member's secrets."""
        return self.cell.opening_threshold(self.size) if self.sparse is None else self.sparse.threshold

    @property
    def holder_count(self) -> int:
        """Number of members that hold shares of a member's secrets."""
        return self.size if self.sparse is None else self.sparse.neighbours

    def holders(self, dealer: int) -> tuple[int, ...]:
        """Return the roster indices of the members that hold shares of a member's secrets, ascending.

        They are its neighbours, and in a complete graph also the member itself. `a` is in `holders(b)` if and only if
        `b` is in `holders(a)`.
        """
        if self.sparse is None:
            return tuple(range(self.size))
        half, (ring, places) = self.sparse.neighbours // 2, self._ring
        offsets = np.concatenate([np.arange(-half, 0), np.arange(1, half + 1)])
        return tuple(sorted(ring[(places[dealer] + offsets) % self.size].tolist()))

    def present_holders(self, dealer: int, present: Collection[int]) -> tuple[int, ...]:
        """Return those holders of a member's shares that are present, ascending."""
        remaining = {*present}
        return tuple(holder for holder in self._all_holders[dealer] if holder in remaining)

    def rank(self, dealer: int, holder: int) -> int | None:
        """Return the position of a holder among the holders of a member's shares; None if it holds none."""
        return self._ranks[dealer].get(holder)

    def joins(self, present: Collection[int]) -> bool:
        """Return whether the honest ones among these members are connected, whichever of them collude.

        The honest members of a ring fall apart only if it has two separate runs of k/2 places without any of them. So
        they do not if every run of k/2 places has more than half as many present members as there are colluding ones.
        """
        if self.sparse is None:
            return True
        half, runs = self.sparse.neighbours // 2, self._running_totals(present)
        return bool(((runs[half : half + self.size] - runs[: self.size]) * 2 > self.cell.colluding).all())

    def opens(self, present: Collection[int], dealers: Collection[int]) -> bool:
        """Return whether enough holders of these dealers' shares are present to recover their secrets."""
        if self.sparse is None:
            return len(present) >= self.threshold
        half, runs, places = self.sparse.neighbours // 2, self._running_totals(present), self._ring[1][[*dealers]]
        around = runs[places + half + 1 + self.size] - runs[places - half + self.size]
        own = np.isin([*dealers], [*present])
        return bool((around - own >= self.threshold).all())

    def _running_totals(self, present: Collection[int]) -> NDArray[np.int64]:
        """Return the number of present members among the first places of the ring, for three turns, int64[3n + 1]."""
        marks = np.zeros(self.size, dtype=np.int64)
        marks[self._ring[1][[*present]]] = 1
        return np.concatenate([[0], np.cumsum(np.tile(marks, 3))])

    @cached_property
    def _ring(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The roster index at each place of the ring, and the place of each roster index, int64[n] each."""
        hashes = [sha256(_RING + self.roster + index.to_bytes(2, "big")).digest() for index in range(self.size)]
        ring = np.array(sorted(range(self.size), key=hashes.__getitem__), dtype=np.int64)
        places = np.empty_like(ring)
        places[ring] = np.arange(self.size)
        return ring, places

    @cached_property
    def _all_holders(self) -> list[tuple[int, ...]]:
        return [self.holders(dealer) for dealer in range(self.size)]

    @cached_property
    def _ranks(self) -> list[dict[int, int]]:
        return [{holder: rank for rank, holder in enumerate(holders)} for holders in self._all_holders]
