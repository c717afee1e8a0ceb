"""Messages between devices that mix contributions, before any encoding."""

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sottovoce.identity.framing import frame_fields

_DOMAIN = b"sottovoce/contribution/v1"


@dataclass(frozen=True, slots=True)
class Contribution:
    """The sum of all releases by one device, Σ γ_t/B · release over its private steps.

    If there are two contributions from the same owner, the one with more steps replaces the other. A contribution
    consists of releases that are already charged.

    Attributes:
        owner: the node id of the device that made the releases.
        steps: the number of private steps, at least 1.
        numerator: int64[width] in units of 2^-40, read-only.
        credential: the owner's certificate, in DER.
        signature: the owner's signature over `signed_bytes`.
        simulated: whether any of it comes from a seeded noise stream; the wire refuses to encode such a contribution.
    """

    owner: str
    steps: int
    numerator: NDArray[np.int64]
    credential: bytes = b""
    signature: bytes = b""
    simulated: bool = False

    def signed_bytes(self, fleet: str, task: bytes) -> bytes:
        """Return the bytes to sign, bound to one task because values differ in meaning between tasks; see Signed."""
        numbers = self.numerator.astype("<i8").tobytes()
        return frame_fields(
            _DOMAIN, (fleet.encode(), task, self.owner.encode(), struct.pack(">Q", self.steps), numbers)
        )


@dataclass(frozen=True, slots=True)
class Contributions:
    """A message with contributions and a list of the contributions that the sender holds.

    Attributes:
        steps: the step count of each contribution that the sender holds, keyed by its owner's rank.
        contributions: the contributions in the message.
    """

    kind: ClassVar[str] = "contributions/1"

    steps: Mapping[int, int] = field(default_factory=dict)
    contributions: tuple[Contribution, ...] = ()

    @property
    def simulated(self) -> bool:
        """Whether any contribution comes from a seeded noise stream; see Message.simulated."""
        return any(contribution.simulated for contribution in self.contributions)

    @property
    def value_count(self) -> int:
        """The number of values in the message; see Message.value_count."""
        return len(self.steps) + sum(contribution.numerator.size + 1 for contribution in self.contributions)

    def traced(self) -> dict[str, Any]:
        """Return the message as a JSON-serialisable dict; see Message.traced."""
        contributions = [
            {"owner": contribution.owner, "steps": contribution.steps, "numerator": contribution.numerator.tolist()}
            for contribution in self.contributions
        ]
        return {
            "steps": {str(owner_rank): steps for owner_rank, steps in sorted(self.steps.items())},
            "contributions": contributions,
        }


def rank(owner: str) -> int:
    """Return a device's rank, which is the same on every device: the first 8 bytes of its node id's SHA-256."""
    return int.from_bytes(hashlib.sha256(owner.encode()).digest()[:8], "big")
