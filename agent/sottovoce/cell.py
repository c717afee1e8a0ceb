"""Size of a cell: its members, how many of them may collude, and how many must remain to open a sum."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cell:
    """Public rule of a cell.

    Attributes:
        least: number of members of the smallest roster.
        most: number of members of the largest roster.
        colluding: most devices of the fleet that share their knowledge with one another and with eavesdroppers.
        threshold: share of a roster that must remain to open a sum.
        spare: rounds that may fail, which the budget pays for in addition to the planned ones.
    """

    least: int
    most: int
    colluding: int
    threshold: float
    spare: int = 0

    @property
    def defect(self) -> tuple[str, str] | None:
        """Return the key at fault, and why some roster could not be opened or would hide no device; None if sound."""
        if self.least > self.most:
            return "min", f"{self.least} is above max, which is {self.most}: no round is that large; lower it"
        if any(self.opens_at(size) > size or self.honest_shares(size) < 1 for size in (self.least, self.least + 1)):
            what = f"{self.colluding} of {self.least} devices leave too few honest ones"
            return "colluding", f"{what}: lower it, or raise min"
        return None

    @property
    def own_spare(self) -> int:
        """Default number of spare rounds: 1 if the smallest cell can do without the dishonest, else 0."""
        return int(self.opens_at(self.least) + max(1, self.colluding) <= self.least)

    def opens_at(self, size: int) -> int:
        """Return t, the members of a roster of `size` needed to open a sum; no two sets can both open, 2t > size + f.

        A colluding member can sign for both sets; any other member signs only once.
        """
        return max(math.ceil(self.threshold * size), (size + self.colluding) // 2 + 1)

    def honest_shares(self, size: int) -> int:
        """Return t - f: noise shares in every sum that can be opened that only their own members know."""
        return self.opens_at(size) - self.colluding
