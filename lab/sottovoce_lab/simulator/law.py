"""Interface for a simulated fleet's laws, which must hold after every event, regardless of faults."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from sottovoce_lab.simulator.device import Device


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A simulation event that has just happened.

    Attributes:
        event: the event name, as an EventObserver receives it.
        device: the device on which the event happened.
        state: the learner's state after the event; None while the device is down.
        facts: for `receive`, the `sender`, `sequence` and `duplicate`; for `confirm`, the `recipient` and `sequence`;
            for both, the `reply`, if any; for `answer`, the `answer`.
    """

    event: str
    device: Device
    state: Any
    facts: Mapping[str, Any]


class Law(Protocol):
    """A check that runs after every event. It is created from the devices that it covers, before the first event."""

    def find_violation(self, occurrence: Occurrence) -> str | None:
        """Return a description of the violation, without private data or numbers; None if the law holds."""
        ...
