"""Messages between golf devices, before any encoding."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sottovoce.learners.published import Holding, PublishedRecord


@dataclass(frozen=True, slots=True)
class GolfMessage:
    """A travelling model and published records (Hegedűs & Jelasity 2017, Algorithm 1).

    Attributes:
        parameters: float32[P], the sender's current model; empty when its model is fitted from records alone.
        age: t, the number of updates in the model's history.
        holding: digest of the records the sender holds.
        records: the records sent.
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
