"""Messages between devices that mix contributions, before any encoding."""

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sottovoce.identity.framing import framed

_DOMAIN = b"sottovoce/contribution/v1"


@dataclass(frozen=True, slots=True)
class Contribution:
    """Sum of everything that one device has put into the model: Σ γ_t/B · release of its private steps.

    Of two contributions by one owner, the one with more steps replaces the other. A contribution is made of releases,
    which are charged.

    Attributes:
        owner: node id of the device that made the releases.
        steps: number of private steps, from 1.
        numerator: int64[width] in units of 2^-40, read-only.
        credential: the owner's certificate, DER.
        signature: signature of the owner over `signed_bytes`.
        simulated: some of it stems from a seeded noise stream; the wire refuses to encode it.
    """

    owner: str
    steps: int
    numerator: NDArray[np.int64]
    credential: bytes = b""
    signature: bytes = b""
    simulated: bool = False

    def signed_bytes(self, fleet: str, task: bytes) -> bytes:
        """See Signed.signed_bytes: bound to one task, since the values would mean something else in another task."""
        numbers = self.numerator.astype("<i8").tobytes()
        return framed(_DOMAIN, (fleet.encode(), task, self.owner.encode(), struct.pack(">Q", self.steps), numbers))


@dataclass(frozen=True, slots=True)
class Contributions:
    """Message with contributions, and a list of the contributions that the sender holds.

    Attributes:
        steps: steps of each contribution that the sender holds, by the rank of its owner.
        contributions: the contributions sent.
    """

    kind: ClassVar[str] = "contributions/1"

    steps: Mapping[int, int] = field(default_factory=dict)
    contributions: tuple[Contribution, ...] = ()

    @property
    def simulated(self) -> bool:
        """See Message.simulated."""
        return any(one.simulated for one in self.contributions)

    @property
    def numbers(self) -> int:
        """See Message.numbers."""
        return len(self.steps) + sum(one.numerator.size + 1 for one in self.contributions)

    def traced(self) -> dict[str, Any]:
        """See Message.traced."""
        some = [{"owner": c.owner, "steps": c.steps, "numerator": c.numerator.tolist()} for c in self.contributions]
        return {"steps": {str(at): steps for at, steps in sorted(self.steps.items())}, "contributions": some}


def rank(owner: str) -> int:
    """Return the rank of a device among all, equal everywhere: the first 8 bytes of its node id's SHA-256."""
    return int.from_bytes(hashlib.sha256(owner.encode()).digest()[:8], "big")
