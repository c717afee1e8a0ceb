"""What a run tells while it runs."""

from dataclasses import dataclass
from typing import Protocol

from sottovoce_lab.testbed.measure import Quality


@dataclass(frozen=True, slots=True)
class Moment:
    """The fleet at one moment: the slowest live agent's cycle, and totals over agents."""

    cycle: int
    cycles: int
    elapsed_s: float
    alive: int
    measures: Quality
    epsilon_spent: float | None
    messages: int
    wire_bytes: int


class Watcher(Protocol):
    """Somebody who is shown a run while it goes on."""

    def note(self, text: str) -> None:
        """Something happened."""
        ...

    def moment(self, moment: Moment) -> None:
        """Another cycle is over."""
        ...
