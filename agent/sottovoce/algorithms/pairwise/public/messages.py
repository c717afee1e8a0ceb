"""Messages between devices that average in pairs, before they are encoded."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposal that sender and recipient move towards each other's models by the same distance.

    Attributes:
        numerator: int64[P] in units of 2^-40, the sender's model, rounded for sending.
        parts: how many parts, at least 2, the difference is divided into; each device moves by one part.
        reach: the maximum length up to which the difference counts; infinity if all of it counts.
        simulated: whether any part comes from a seeded noise stream; the wire refuses to encode such a message.
    """

    kind: ClassVar[str] = "pairwise-proposal/1"

    numerator: NDArray[np.int64]
    parts: int
    reach: float
    simulated: bool = False

    @property
    def value_count(self) -> int:
        """The number of values in the message; see Message.value_count."""
        return self.numerator.size + 2

    def traced(self) -> dict[str, Any]:
        """Return the message as a JSON-serialisable dict; see Message.traced."""
        return {"numerator": self.numerator.tolist(), "parts": self.parts, "reach": self.reach}


@dataclass(frozen=True, slots=True)
class Move:
    """The move made by a proposal's recipient. The sender makes the opposite move.

    Attributes:
        numerator: int64[P] in units of 2^-40.
        simulated: whether any part comes from a seeded noise stream; the wire refuses to encode such a message.
    """

    kind: ClassVar[str] = "pairwise-move/1"

    numerator: NDArray[np.int64]
    simulated: bool = False

    @property
    def value_count(self) -> int:
        """The number of values in the message; see Message.value_count."""
        return self.numerator.size

    def traced(self) -> dict[str, Any]:
        """Return the message as a JSON-serialisable dict; see Message.traced."""
        return {"numerator": self.numerator.tolist()}
