"""Size of a cell: how many members, how many of them may collude, and how many must be left to open a sum."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cell:
    """The public rule of a cell.

    Attributes:
        least: members of the smallest one.
        most: members of the largest one.
        colluding: devices of the fleet, at most, that share their knowledge with one another and with eavesdroppers.
        threshold: share of a roster that has to be left.
        spare: rounds that may come to nothing, which the budget pays for beside those that are planned.
    """

    least: int
    most: int
    colluding: int
    threshold: float
    spare: int = 0

    @property
    def wrong(self) -> tuple[str, str] | None:
        """The key and the reason for which some roster could not be opened, or would hide no one; None where all do."""
        if self.least > self.most:
            return "min", f"{self.least} is above max, which is {self.most}: no round is that large; lower it"
        if any(self.opens_at(size) > size or self.honest(size) < 1 for size in (self.least, self.least + 1)):
            what = f"{self.colluding} of {self.least} devices leave too few honest ones"
            return "colluding", f"{what}: lower it, or raise min"
        return None

    @property
    def own_spare(self) -> int:
        """Spare rounds where none are asked for: 1, if the smallest cell can do without the dishonest; else 0."""
        return int(self.opens_at(self.least) + max(1, self.colluding) <= self.least)

    def opens_at(self, size: int) -> int:
        """t: how many of a roster of `size` must be left for a sum; no two sets can both be opened, 2t > size + f.

        Anyone who colludes can sign twice; of the others each signs once.
        """
        return max(math.ceil(self.threshold * size), (size + self.colluding) // 2 + 1)

    def honest(self, size: int) -> int:
        """t - f: shares of noise in every sum that can be opened which no other knows."""
        return self.opens_at(size) - self.colluding
