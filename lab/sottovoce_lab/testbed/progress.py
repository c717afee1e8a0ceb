"""Interface for displaying the progress of a run."""

from dataclasses import dataclass

from sottovoce_lab.testbed.measure import Quality


@dataclass(frozen=True, slots=True)
class Moment:
    """A fleet's state after one of its cycles; messages and bytes are totals over all agents."""

    cycle: int
    cycles: int
    elapsed_s: float
    alive: int
    measures: Quality
    epsilon_spent: float | None
    messages: int
    wire_bytes: int


class Watcher:
    """A watcher that shows nothing; the base class of all watchers of a run."""

    def note(self, text: str) -> None:
        """Show a note about an event in the run."""

    def advance(self, what: str, done: int, of: int) -> None:
        """Show the progress of a phase: for example, 17 of 60 `agents ready`."""

    def show_moment(self, moment: Moment) -> None:
        """Show the fleet's state at the end of a cycle."""
