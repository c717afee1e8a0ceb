"""Messages between devices that learn in rounds."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

MAX_VECTORS = 2
"""Largest number of vectors in one message: a model, and one that accompanies it."""

LARGEST = 1e15
"""Largest magnitude of a value in a message: learning does not produce larger values."""


@dataclass(frozen=True, slots=True)
class RoundMessage:
    """Message to one neighbour in one phase of one round.

    Attributes:
        round: t, from 0.
        phase: phase of that round, from 0.
        degree: number of the sender's neighbours, from which both ends of an edge compute its weight.
        vectors: float32[v, P]; v is 0 where the sender has nothing for this neighbour in this phase.
        simulated: some of it stems from a seeded noise stream; the wire refuses to encode it.
    """

    kind: ClassVar[str] = "round-message/1"

    round: int
    phase: int
    degree: int
    vectors: NDArray[np.float32]
    simulated: bool = False

    @property
    def numbers(self) -> int:
        """See Message.numbers."""
        return self.vectors.size + 3

    def traced(self) -> dict[str, Any]:
        """See Message.traced."""
        return {
            "round": self.round,
            "phase": self.phase,
            "degree": self.degree,
            "vectors": self.vectors.tolist(),
        }
