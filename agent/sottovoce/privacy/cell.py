"""Size limits of a cell: a group of devices that compute a sum together without revealing any member's contribution.

The limits set how many members a cell has, how many of them may collude, and how many must remain to open the sum.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell's public size limits.

    Attributes:
        least: minimum number of members in a roster, which is the list of devices in one round.
        most: maximum number of members in a roster.
        colluding: maximum number of fleet devices that share their knowledge with one another and with eavesdroppers.
        threshold: share of a roster that must remain to open a sum.
        spare: number of rounds that may fail; the budget covers them in addition to the planned rounds.
    """

    least: int
    most: int
    colluding: int
    threshold: float
    spare: int = 0

    @property
    def defect(self) -> tuple[str, str] | None:
        """Return the invalid key and the reason if a roster could not be opened or would hide no device; else None."""
        if self.least > self.most:
            return "min", f"{self.least} exceeds max, which is {self.most}, so no round can be large enough; reduce min"
        if any(
            self.opening_threshold(size) > size or self.honest_shares(size) < 1 for size in (self.least, self.least + 1)
        ):
            problem = f"with {self.colluding} of {self.least} devices colluding, too few honest devices are left"
            return "colluding", f"{problem}; reduce colluding, or increase min"
        return None

    @property
    def default_spare(self) -> int:
        """Return the default number of spare rounds: 1 if the smallest cell can lose its dishonest members, else 0."""
        return int(self.opening_threshold(self.least) + max(1, self.colluding) <= self.least)

    def opening_threshold(self, size: int) -> int:
        """Return t, the number of members that are needed to open a sum with a roster of `size` members.

        Because 2t > size + f, two different sets of survivors cannot both be opened: a colluding member can sign for
        both sets, but any other member signs only once.
        """
        return max(math.ceil(self.threshold * size), (size + self.colluding) // 2 + 1)

    def honest_shares(self, size: int) -> int:
        """Return t - f, the number of noise shares in every opened sum that only their own members know."""
        return self.opening_threshold(size) - self.colluding
