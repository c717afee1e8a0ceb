"""Messages between gradient-walk devices, before they are encoded."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class GradientWalkMessage:
    """A model on its way to the next device (Hegedűs & Jelasity 2017, gradient perturbation).

    Attributes:
        parameters: float32[P], w.
        age: t, the number of steps in the model's history.
        simulated: whether any part comes from a seeded noise stream; the wire refuses to encode such a message.
    """

    kind: ClassVar[str] = "gradient-walk-message/1"

    parameters: NDArray[np.float32]
    age: int
    simulated: bool = False

    @property
    def value_count(self) -> int:
        """The number of values in the message; see Message.value_count."""
        return self.parameters.size + 1

    def traced(self) -> dict[str, Any]:
        """Return the message as a JSON-serialisable dict; see Message.traced."""
        return {"parameters": self.parameters.tolist(), "age": self.age}
