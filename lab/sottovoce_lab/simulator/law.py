"""Laws of a simulated fleet: each must hold after every event, whatever fails on the way."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from sottovoce_lab.simulator.device import Device


@dataclass(frozen=True, slots=True)
class Happening:
    """One event of a simulation, just over.

    Attributes:
        event: its name, as a Witness receives it.
        device: where.
        state: the learner's state after it; None while the device is down.
        facts: its facts: of `receive` the `sender`, `sequence` and `duplicate`, of `confirm` the `recipient`
            and `sequence`, of both the `reply`, if there is one; of `answer` the `answer`.
    """

    event: str
    device: Device
    state: Any
    facts: Mapping[str, Any]


class Law(Protocol):
    """Follows a fleet from event to event. It is made before the first, from the devices that it is about."""

    def broken(self, happening: Happening) -> str | None:
        """Violation after this event, in public words and without a number; None when the law holds."""
        ...
