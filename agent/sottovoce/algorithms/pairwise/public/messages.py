"""Messages between devices that average in pairs, before any encoding."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Proposal:
    """Proposal that the sender of a model and its recipient move towards each other by the same distance.

    Attributes:
        numerator: int64[P] in units of 2^-40: the sender's model, rounded for sending.
        parts: number of parts, 2 or more, of their difference; each device moves by one part.
        reach: largest length of their difference that counts; infinity for all of it.
        simulated: some of it stems from a seeded noise stream; the wire refuses to encode it.
    """

    kind: ClassVar[str] = "pairwise-proposal/1"

    numerator: NDArray[np.int64]
    parts: int
    reach: float
    simulated: bool = False

    @property
    def numbers(self) -> int:
        """See Message.numbers."""
        return self.numerator.size + 2

    def traced(self) -> dict[str, Any]:
        """See Message.traced."""
        return {"numerator": self.numerator.tolist(), "parts": self.parts, "reach": self.reach}


@dataclass(frozen=True, slots=True)
class Move:
    """Move of a proposal's recipient; the sender moves by as much in the other direction.

    Attributes:
        numerator: int64[P] in units of 2^-40.
        simulated: some of it stems from a seeded noise stream; the wire refuses to encode it.
    """

    kind: ClassVar[str] = "pairwise-move/1"

    numerator: NDArray[np.int64]
    simulated: bool = False

    @property
    def numbers(self) -> int:
        """See Message.numbers."""
        return self.numerator.size

    def traced(self) -> dict[str, Any]:
        """See Message.traced."""
        return {"numerator": self.numerator.tolist()}
