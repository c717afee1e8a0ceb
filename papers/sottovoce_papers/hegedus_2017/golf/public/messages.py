"""Messages between golf devices, before they are encoded."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sottovoce.plugin import Holding, PublishedRecord


@dataclass(frozen=True, slots=True)
class GolfMessage:
    """A message with a model and published records (Hegedűs & Jelasity 2017, Algorithm 1).

    Attributes:
        parameters: float32[P], the sender's current model; empty if models are fitted only to records.
        age: t, the number of updates in the model's history.
        holding: digest of the records that the sender stores.
        records: the records in the message.
        simulated: whether any part comes from a seeded noise stream; the wire refuses to encode such a message.
    """

    kind: ClassVar[str] = "golf-message/1"

    parameters: NDArray[np.float32]
    age: int
    holding: Holding
    records: tuple[PublishedRecord, ...] = ()
    simulated: bool = False

    @property
    def value_count(self) -> int:
        """The number of values in the message; see Message.value_count."""
        return self.parameters.size + 1 + sum(record.values.size for record in self.records)

    def traced(self) -> dict[str, Any]:
        """Return the message as a JSON-serialisable dict; see Message.traced."""
        records = [
            {"owner": record.owner, "slot": record.slot, "values": record.values.tolist()} for record in self.records
        ]
        return {"parameters": self.parameters.tolist(), "age": self.age, "records": records}
