"""Interface for displaying a run's progress."""

from dataclasses import dataclass

from sottovoce_lab.testbed.measure import Quality


@dataclass(frozen=True, slots=True)
class Moment:
    """A fleet's state after one of its cycles. Messages and bytes are totals over all agents."""

    cycle: int
    cycles: int
    elapsed_s: float
    alive: int
    measures: Quality
    epsilon_spent: float | None
    messages: int
    wire_bytes: int


class Watcher:
    """A watcher that shows nothing, and the base class for all watchers."""

    def note(self, text: str) -> None:
        """Show a note about an event in the run."""

    def advance(self, phase: str, done: int, total: int) -> None:
        """Show how far a phase has got, for example 17 of 60 `agents ready`."""

    def show_moment(self, moment: Moment) -> None:
        """Show the fleet's state at the end of a cycle."""
