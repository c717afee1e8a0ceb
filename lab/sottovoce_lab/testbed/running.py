"""A run's interface to its fleet: the testbed's own processes, or containers that were started elsewhere."""

from collections.abc import Callable
from typing import Protocol

from sottovoce.vault import Spending

from sottovoce_lab.testbed.broker import TestbedBroker
from sottovoce_lab.testbed.fleet import Member


class RunningFleet(Protocol):
    """A fleet under observation.

    Attributes:
        broker: the run's own broker, which it may kill; None if it has none.
        members: all its agents.
    """

    broker: TestbedBroker | None
    members: list[Member]

    @property
    def words(self) -> str:
        """The line that a watcher is shown at the start."""
        ...

    def start(self, ready: Callable[[int, int], None]) -> None:
        """Wait until every agent has answered once.

        Args:
            ready: is called with the number of agents that have answered, and of all.

        Raises:
            SottovoceError: if one ended, or did not answer in time.
        """
        ...

    def stop(self) -> list[str]:
        """Stop the fleet. Returns the names of agents that did not stop when asked to."""
        ...

    def launch(self, index: int) -> None:
        """Start one agent again."""
        ...

    def kill(self, index: int) -> None:
        """Kill -9."""
        ...

    def cut_off(self, places: frozenset[int]) -> None:
        """From now on, cut off these agents, and only these, from all others."""
        ...

    def poll(self) -> None:
        """Ask every running agent for its status.

        Raises:
            SottovoceError: if an agent ended without being killed.
        """
        ...

    def running(self) -> list[Member]:
        """The agents that run."""
        ...

    def charges_when_stopped(self, member: Member) -> int | None:
        """Charges in the agent's last log line; None without one."""
        ...

    def spending(self, member: Member) -> Spending:
        """Spending in the agent's ledger, read from outside."""
        ...
