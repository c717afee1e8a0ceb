"""Messages between devices that average in pairs, before encoding."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Proposal:
    """Proposal that the sender and the recipient move towards each other's models by the same distance.

    Attributes:
        numerator: int64[P] in units of 2^-40: the sender's model, rounded for sending.
        parts: number of parts, 2 or more, into which their difference is divided; each device moves by one part.
        reach: maximum length up to which their difference counts; infinity if all of it counts.
        simulated: whether any of it comes from a seeded noise stream; the wire refuses to encode such a message.
    """

    kind: ClassVar[str] = "pairwise-proposal/1"

    numerator: NDArray[np.int64]
    parts: int
    reach: float
    simulated: bool = False

    @property
    def numbers(self) -> int:
        """Number of values in the message; see Message.numbers."""
        return self.numerator.size + 2

    def traced(self) -> dict[str, Any]:
        """Return the message as a JSON-serialisable dict; see Message.traced."""
        return {"numerator": self.numerator.tolist(), "parts": self.parts, "reach": self.reach}


@dataclass(frozen=True, slots=True)
class Move:
    """Move of a proposal's recipient. The sender moves by the same distance in the opposite direction.

    Attributes:
        numerator: int64[P] in units of 2^-40.
        simulated: whether any of it comes from a seeded noise stream; the wire refuses to encode such a message.
    """

    kind: ClassVar[str] = "pairwise-move/1"

    numerator: NDArray[np.int64]
    simulated: bool = False

    @property
    def numbers(self) -> int:
        """Number of values in the message; see Message.numbers."""
        return self.numerator.size

    def traced(self) -> dict[str, Any]:
        """Return the message as a JSON-serialisable dict; see Message.traced."""
        return {"numerator": self.numerator.tolist()}
