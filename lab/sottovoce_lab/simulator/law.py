"""Laws of a simulated fleet: each must hold after every event, whatever fails on the way."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from sottovoce_lab.simulator.device import Device


@dataclass(frozen=True, slots=True)
class Happening:
    """An event of a simulation that has just happened.

    Attributes:
        event: its name, as a Witness receives it.
        device: the device at which it happened.
        state: the learner's state after the event; None while the device is down.
        facts: for `receive`, the `sender`, `sequence` and `duplicate`; for `confirm`, the `recipient` and `sequence`;
            for both, the `reply`, if there is one; for `answer`, the `answer`.
    """

    event: str
    device: Device
    state: Any
    facts: Mapping[str, Any]


class Law(Protocol):
    """Checks a fleet after every event. A law is made before the first event, from the devices that it is about."""

    def broken(self, happening: Happening) -> str | None:
        """The violation that this event shows, in public words and without a number; None if the law holds."""
        ...
