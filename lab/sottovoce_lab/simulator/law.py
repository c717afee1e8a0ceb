"""Laws of a simulated fleet: each must hold after every event, whatever faults occur."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from sottovoce_lab.simulator.device import Device


@dataclass(frozen=True, slots=True)
class Happening:
    """Event of a simulation that has just happened.

    Attributes:
        event: name of the event, as a Witness receives it.
        device: the device at which the event happened.
        state: the learner's state after the event; None while the device is down.
        facts: for `receive`, the `sender`, `sequence` and `duplicate`; for `confirm`, the `recipient` and `sequence`;
            for both, the `reply`, if any; for `answer`, the `answer`.
    """

    event: str
    device: Device
    state: Any
    facts: Mapping[str, Any]


class Law(Protocol):
    """Check of a fleet after every event. A law is created before the first event, from the devices it concerns."""

    def violation(self, happening: Happening) -> str | None:
        """Return the violation that this event shows, in public words and without a number; None if the law holds."""
        ...
