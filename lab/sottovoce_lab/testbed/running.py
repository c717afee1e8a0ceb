"""Interface of a run to its fleet: the testbed's own processes, or containers that were started elsewhere."""

from collections.abc import Callable
from typing import Protocol

from sottovoce.vault import Spending

from sottovoce_lab.testbed.broker import TestbedBroker
from sottovoce_lab.testbed.fleet import Member


class RunningFleet(Protocol):
    """Fleet under observation.

    Attributes:
        broker: the run's own broker, which the run may kill; None without one.
        members: all agents of the fleet.
    """

    broker: TestbedBroker | None
    members: list[Member]

    @property
    def start_message(self) -> str:
        """Line for a watcher to show at the start."""
        ...

    def start(self, ready: Callable[[int, int], None]) -> None:
        """Wait until every agent has answered once.

        Args:
            ready: called with the number of agents that have answered, and the number of all agents.

        Raises:
            SottovoceError: if an agent ended, or did not answer in time.
        """
        ...

    def stop(self) -> list[str]:
        """Stop the fleet. Return the names of agents that did not stop on request."""
        ...

    def launch(self, index: int) -> None:
        """Restart one agent."""
        ...

    def kill(self, index: int) -> None:
        """Kill an agent (kill -9)."""
        ...

    def cut_off(self, places: frozenset[int]) -> None:
        """Cut off these agents, and only these, from all other agents from now on."""
        ...

    def poll(self) -> None:
        """Query every running agent for its status.

        Raises:
            SottovoceError: if an agent ended without being killed.
        """
        ...

    def running(self) -> list[Member]:
        """Return the running agents."""
        ...

    def charges_when_stopped(self, member: Member) -> int | None:
        """Return the number of charges in the agent's last log line; None without such a line."""
        ...

    def spending(self, member: Member) -> Spending:
        """Return spending in the agent's ledger, read from outside."""
        ...
