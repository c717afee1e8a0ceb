"""Messages between devices that share one model (Jin, He & Dai 2023): who wrote last, and the model itself."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

MAX_STEP = 2**53
"""The largest step count."""

_KIND = "shared-model-message/1"  # one payload type for all three messages


@dataclass(frozen=True, slots=True)
class Head:
    """Identity of a model, by which the newest is found: the paper's two integers.

    Attributes:
        step: t, the number of global steps up to this model, lost ones included.
        writer: node id of the device that took the last step; empty for the public model at step 0.
    """

    step: int
    writer: str

    def beats(self, other: "Head") -> bool:
        """Return whether this head is newer; at equal steps, by an order that favours no device across steps."""
        return self._rank > other._rank

    @property
    def _rank(self) -> tuple[int, bytes, str]:
        return self.step, sha256(f"sottovoce/shared-model|{self.step}|{self.writer}".encode()).digest(), self.writer


@dataclass(frozen=True, slots=True)
class HeadAnnounced:
    """Announcement that the sender holds this model, and hands it to devices that ask.

    Attributes:
        head: the model's head.
        simulated: it stems from a seeded noise stream; the wire refuses to encode it.
    """

    kind: ClassVar[str] = _KIND

    head: Head
    simulated: bool = False

    @property
    def numbers(self) -> int:
        """See Message.numbers."""
        return 2

    def traced(self) -> dict[str, Any]:
        """See Message.traced."""
        return {"said": "announced", "step": self.head.step, "writer": self.head.writer}


@dataclass(frozen=True, slots=True)
class ModelWanted:
    """Request for the newest model that the recipient has announced.

    Attributes:
        simulated: always false: the message holds nothing that was released.
    """

    kind: ClassVar[str] = _KIND

    simulated: bool = False

    @property
    def numbers(self) -> int:
        """See Message.numbers."""
        return 0

    def traced(self) -> dict[str, Any]:
        """See Message.traced."""
        return {"said": "wanted"}


@dataclass(frozen=True, slots=True)
class SharedModelMessage:
    """The newest model that the sender has announced.

    Attributes:
        head: the model's head.
        parameters: float32[P].
        simulated: it stems from a seeded noise stream; the wire refuses to encode it.
    """

    kind: ClassVar[str] = _KIND

    head: Head
    parameters: NDArray[np.float32]
    simulated: bool = False

    @property
    def numbers(self) -> int:
        """See Message.numbers."""
        return self.parameters.size + 2

    def traced(self) -> dict[str, Any]:
        """See Message.traced."""
        return {
            "said": "model",
            "step": self.head.step,
            "writer": self.head.writer,
            "parameters": self.parameters.tolist(),
        }
