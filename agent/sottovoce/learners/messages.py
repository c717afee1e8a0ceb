"""What learners say to one another, before any encoding."""

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from sottovoce.learners.published import Holding, PublishedRecord

MAX_WEIGHT = 4 * 2**40
"""The largest push-sum weight of one share, in units of 2^-40: nobody can flood another with mass."""

MAX_NUMERATOR = 2**60
"""The largest magnitude of one coordinate, in units of 2^-40: two of them never overflow an int64."""


class Message(Protocol):
    """What every message can say of itself."""

    kind: ClassVar[str]
    """The payload type under which it travels; `wire.codec` knows where its encoding is."""

    @property
    def simulated(self) -> bool:
        """Some of it stems from a seeded noise stream; the wire refuses to encode it."""
        ...

    @property
    def numbers(self) -> int:
        """How many numbers it carries."""
        ...

    def traced(self) -> dict[str, Any]:
        """All of it, JSON-ready."""
        ...


@dataclass(frozen=True, slots=True)
class PushSumShare:
    """A share of push-sum mass.

    Attributes:
        numerator: int64[P] in units of 2^-40.
        weight: the push-sum weight in units of 2^-40, positive.
        simulated: some of it stems from a seeded noise stream; the wire refuses to encode it.
    """

    kind: ClassVar[str] = "push-sum-share/1"

    numerator: NDArray[np.int64]
    weight: int
    simulated: bool = False

    @property
    def numbers(self) -> int:
        """See Message.numbers."""
        return self.numerator.size + 1

    def traced(self) -> dict[str, Any]:
        """See Message.traced."""
        return {"numerator": self.numerator.tolist(), "weight": self.weight}


@dataclass(frozen=True, slots=True)
class GolfMessage:
    """A model on its walk, and published records on theirs (Hegedűs & Jelasity 2017, Algorithm 1).

    Attributes:
        parameters: float32[P], the sender's current model; empty when its model is fitted from records alone.
        age: t, the updates behind the model.
        holding: digest of the records the sender holds.
        records: some of them.
        simulated: some of it stems from a seeded noise stream; the wire refuses to encode it.
    """

    kind: ClassVar[str] = "golf-message/1"

    parameters: NDArray[np.float32]
    age: int
    holding: Holding
    records: tuple[PublishedRecord, ...] = ()
    simulated: bool = False

    @property
    def numbers(self) -> int:
        """See Message.numbers."""
        return self.parameters.size + 1 + sum(record.values.size for record in self.records)

    def traced(self) -> dict[str, Any]:
        """See Message.traced."""
        records = [
            {"owner": record.owner, "slot": record.slot, "values": record.values.tolist()} for record in self.records
        ]
        return {"parameters": self.parameters.tolist(), "age": self.age, "records": records}


@dataclass(frozen=True, slots=True)
class GradientWalkMessage:
    """A model that moves on (Hegedűs & Jelasity 2017, gradient perturbation).

    Attributes:
        parameters: float32[P], w.
        age: t, the steps behind it.
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
