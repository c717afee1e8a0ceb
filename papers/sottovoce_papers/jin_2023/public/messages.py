"""Messages between devices that share one model (Jin, He & Dai 2023): its last writer, and the model itself."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

MAX_STEP = 2**53
"""Maximum step count."""

_KIND = "shared-model-message/1"  # one payload type for all three message classes


@dataclass(frozen=True, slots=True)
class Head:
    """Identifies a model by the paper's two integers, so that devices can find the newest model.

    Attributes:
        step: t, the number of global steps up to this model, including lost ones.
        writer: the node id of the device that took the last step; empty for the public model at step 0.
    """

    step: int
    writer: str

    def beats(self, other: "Head") -> bool:
        """Return whether this head is newer; a hash that favours no device breaks ties between equal steps."""
        return self._rank > other._rank

    @property
    def _rank(self) -> tuple[int, bytes, str]:
        return self.step, sha256(f"sottovoce/shared-model|{self.step}|{self.writer}".encode()).digest(), self.writer


@dataclass(frozen=True, slots=True)
class HeadAnnouncement:
    """Announces that the sender has this model and sends it on request.

    Attributes:
        head: the model's head.
        simulated: whether it comes from a seeded noise stream; the wire refuses to encode such a message.
    """

    kind: ClassVar[str] = _KIND

    head: Head
    simulated: bool = False

    @property
    def value_count(self) -> int:
        """The number of values in the message; see Message.value_count."""
        return 2

    def traced(self) -> dict[str, Any]:
        """Return the message as a JSON-serialisable dict; see Message.traced."""
        return {"type": "announced", "step": self.head.step, "writer": self.head.writer}


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """Requests the newest model that the recipient has announced.

    Attributes:
        simulated: always False, because the message contains no release.
    """

    kind: ClassVar[str] = _KIND

    simulated: bool = False

    @property
    def value_count(self) -> int:
        """The number of values in the message; see Message.value_count."""
        return 0

    def traced(self) -> dict[str, Any]:
        """Return the message as a JSON-serialisable dict; see Message.traced."""
        return {"type": "wanted"}


@dataclass(frozen=True, slots=True)
class SharedModelMessage:
    """The newest model that the sender has announced.

    Attributes:
        head: the model's head.
        parameters: float32[P].
        simulated: whether it comes from a seeded noise stream; the wire refuses to encode such a message.
    """

    kind: ClassVar[str] = _KIND

    head: Head
    parameters: NDArray[np.float32]
    simulated: bool = False

    @property
    def value_count(self) -> int:
        """The number of values in the message; see Message.value_count."""
        return self.parameters.size + 2

    def traced(self) -> dict[str, Any]:
        """Return the message as a JSON-serialisable dict; see Message.traced."""
        return {
            "type": "model",
            "step": self.head.step,
            "writer": self.head.writer,
            "parameters": self.parameters.tolist(),
        }
