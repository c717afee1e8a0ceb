"""Progress display of a run."""

from dataclasses import dataclass

from sottovoce_lab.testbed.measure import Quality


@dataclass(frozen=True, slots=True)
class Moment:
    """The fleet after a cycle: the slowest live agent's cycle, and totals over agents."""

    cycle: int
    cycles: int
    elapsed_s: float
    alive: int
    measures: Quality
    epsilon_spent: float | None
    messages: int
    wire_bytes: int


class Watcher:
    """Base class of those who are shown a run; this one shows nothing."""

    def note(self, text: str) -> None:
        """Something happened."""

    def advance(self, what: str, done: int, of: int) -> None:
        """A phase has come this far, for example `agents ready`, 17 of 60."""

    def moment(self, moment: Moment) -> None:
        """A cycle has ended."""
