"""Interface between a run and its fleet, which may be the testbed's own processes or containers."""

from collections.abc import Callable
from typing import Protocol

from sottovoce.privacy.vault import Spending

from sottovoce_lab.testbed.broker import TestbedBroker
from sottovoce_lab.testbed.fleet import Member


class RunningFleet(Protocol):
    """A fleet that a run watches.

    Attributes:
        broker: the run's own broker, which the run may kill; None if the run has no broker.
        members: all of the fleet's agents.
    """

    broker: TestbedBroker | None
    members: list[Member]

    @property
    def start_message(self) -> str:
        """The line that a watcher shows at the start of the run."""
        ...

    def start(self, ready: Callable[[int, int], None]) -> None:
        """Wait until every agent has answered once.

        Args:
            ready: receives the number of agents that have answered, and the total number of agents.

        Raises:
            SottovoceError: if an agent ended or did not answer in time.
        """
        ...

    def stop(self) -> list[str]:
        """Stop the fleet, and return the names of agents that did not stop on request."""
        ...

    def launch(self, index: int) -> None:
        """Start or restart one agent."""
        ...

    def kill(self, index: int) -> None:
        """Kill an agent (kill -9)."""
        ...

    def cut_off(self, indices: frozenset[int]) -> None:
        """Cut off exactly these agents from all others, until the next call."""
        ...

    def poll(self) -> None:
        """Query every running agent for its status.

        Raises:
            SottovoceError: if an agent ended without being killed.
        """
        ...

    def running_members(self) -> list[Member]:
        """Return the running agents."""
        ...

    def charges_when_stopped(self, member: Member) -> int | None:
        """Return the number of charges that the agent logged when it stopped, or None if there is no such log line."""
        ...

    def spending(self, member: Member) -> Spending:
        """Return the spending recorded in the agent's ledger, without asking the agent."""
        ...
