"""Messages between push-sum SGD devices, before they are encoded."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

MAX_WEIGHT = 4 * 2**40
"""Maximum push-sum weight per share, in units of 2^-40, which prevents a device from flooding another with mass."""


@dataclass(frozen=True, slots=True)
class PushSumShare:
    """A share of push-sum mass.

    Attributes:
        numerator: int64[P] in units of 2^-40.
        weight: the push-sum weight in units of 2^-40, positive.
        simulated: whether any part comes from a seeded noise stream; the wire refuses to encode such a message.
    """

    kind: ClassVar[str] = "push-sum-share/1"

    numerator: NDArray[np.int64]
    weight: int
    simulated: bool = False

    @property
    def value_count(self) -> int:
        """The number of values in the message; see Message.value_count."""
        return self.numerator.size + 1

    def traced(self) -> dict[str, Any]:
        """Return the message as a JSON-serialisable dict; see Message.traced."""
        return {"numerator": self.numerator.tolist(), "weight": self.weight}
