"""Progress display of a run."""

from dataclasses import dataclass

from sottovoce_lab.testbed.measure import Quality


@dataclass(frozen=True, slots=True)
class Moment:
    """State of a fleet after a cycle: the slowest live agent's cycle, and totals over agents."""

    cycle: int
    cycles: int
    elapsed_s: float
    alive: int
    measures: Quality
    epsilon_spent: float | None
    messages: int
    wire_bytes: int


class Watcher:
    """Watcher of a run that shows nothing; base class of all watchers."""

    def note(self, text: str) -> None:
        """Show a note on an event of the run."""

    def advance(self, what: str, done: int, of: int) -> None:
        """Show the progress of a phase, for example `agents ready`, 17 of 60."""

    def show_moment(self, moment: Moment) -> None:
        """Show the fleet at the end of a cycle."""
