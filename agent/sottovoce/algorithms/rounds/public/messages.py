"""Messages between devices that learn in rounds."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

MAX_VECTORS = 2
"""Maximum number of vectors per message: a model and one accompanying vector."""

LARGEST = 1e15
"""Maximum magnitude of a value in a message; learning never produces larger values."""


@dataclass(frozen=True, slots=True)
class RoundMessage:
    """A message to one neighbour in one phase of one round.

    Attributes:
        round: t, starting at 0.
        phase: the phase within that round, starting at 0.
        degree: the number of the sender's neighbours, from which both ends of an edge compute its weight.
        vectors: float32[v, P]; v is 0 if the sender has nothing for this neighbour in this phase.
        simulated: whether any part comes from a seeded noise stream; the wire refuses to encode such a message.
    """

    kind: ClassVar[str] = "round-message/1"

    round: int
    phase: int
    degree: int
    vectors: NDArray[np.float32]
    simulated: bool = False

    @property
    def value_count(self) -> int:
        """The number of values in the message; see Message.value_count."""
        return self.vectors.size + 3

    def traced(self) -> dict[str, Any]:
        """Return the message as a JSON-serialisable dict; see Message.traced."""
        return {
            "round": self.round,
            "phase": self.phase,
            "degree": self.degree,
            "vectors": self.vectors.tolist(),
        }
