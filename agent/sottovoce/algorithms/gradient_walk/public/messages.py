"""Messages between devices where a model walks, before any encoding."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class GradientWalkMessage:
    """A model sent to its next device (Hegedűs & Jelasity 2017, gradient perturbation).

    Attributes:
        parameters: float32[P], w.
        age: t, the number of steps in the model's history.
        simulated: some of it stems from a seeded noise stream; the wire refuses to encode it.
    """

    kind: ClassVar[str] = "gradient-walk-message/1"

    parameters: NDArray[np.float32]
    age: int
    simulated: bool = False

    @property
    def numbers(self) -> int:
        """See Message.numbers."""
        return self.parameters.size + 1

    def traced(self) -> dict[str, Any]:
        """See Message.traced."""
        return {"parameters": self.parameters.tolist(), "age": self.age}
