"""The containers in a compose testbed, observed through the directory that they share."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from sottovoce.errors import NetworkError
from sottovoce.fleet import load
from sottovoce.fleet.identity import IDENTITY
from sottovoce.node.control import ask
from sottovoce.privacy.vault import Ledger, Spending

from sottovoce_lab.testbed.broker import TestbedBroker
from sottovoce_lab.testbed.containers.places import Place, wait_until_ready
from sottovoce_lab.testbed.fleet import Member

_SILENT_SECONDS = 30.0  # how long a container may be silent before it counts as gone


class ContainerFleet:
    """A sottovoce_lab.testbed.running_fleet.RunningFleet whose agents are started and stopped by the container engine.

    Args:
        root: the root directory of the places.
        count: the number of agents.
        timeout: the time limit in seconds, which applies separately to preparing the places, to all agents joining and
            to all agents answering for the first time.

    Raises:
        SottovoceError: if the places are not ready, or an agent has not joined, within the time limit.
    """

    broker: TestbedBroker | None = None

    def __init__(self, root: Path, count: int, timeout: float) -> None:
        self._timeout = timeout
        self._places = wait_until_ready(root, timeout)[:count]
        deadline = time.monotonic() + timeout
        while missing := [place.directory.name for place in self._places if not place.config.exists()]:
            if time.monotonic() > deadline:
                raise NetworkError(
                    f"no device joined at {', '.join(missing)} within {timeout:g} s: start as many agents as "
                    "SOTTOVOCE_AGENTS specifies, and check their logs"
                )
            time.sleep(0.2)
        self.members = [_member(place) for place in self._places]
        self._last_answer = dict.fromkeys((member.name for member in self.members), time.monotonic())

    @property
    def start_message(self) -> str:
        """The line that a watcher shows at the start of the run."""
        return f"watching {len(self.members)} containers"

    @property
    def faults(self) -> dict[str, int]:
        """The number of agents that each message fault affects, by fault specification."""
        specifications = [specification for place in self._places for specification in place.faults.read_text().split()]
        return {specification: specifications.count(specification) for specification in sorted(set(specifications))}

    def start(self, ready: Callable[[int, int], None]) -> None:
        """Wait until every agent, started by the container engine, has answered. See RunningFleet.start."""
        deadline = time.monotonic() + self._timeout
        while silent_agents := [member.name for member in self.members if member.last_status is None]:
            self.poll()
            ready(len(self.members) - len(silent_agents), len(self.members))
            if time.monotonic() > deadline:
                raise NetworkError(
                    f"{', '.join(silent_agents)} did not answer within {self._timeout:g} s; check their logs"
                )
            time.sleep(0.2)
        for place, member in zip(self._places, self.members, strict=True):
            member.ready_s = _ready(place)

    def stop(self) -> list[str]:
        """Leave the containers running, and return an empty list."""
        return []

    def launch(self, index: int) -> None:
        """Do nothing, because the container engine starts containers."""

    def kill(self, index: int) -> None:
        """Do nothing, because the container engine kills containers."""

    def cut_off(self, indices: frozenset[int]) -> None:
        """Do nothing, because the container engine disconnects containers."""

    def poll(self) -> None:
        """Query every agent's status. An agent silent for 30 s counts as gone until it answers again."""
        for member in self.members:
            with contextlib.suppress(NetworkError):
                member.last_status = ask(member.state, "status")
                self._last_answer[member.name] = time.monotonic()
            member.is_killed = time.monotonic() - self._last_answer[member.name] > _SILENT_SECONDS

    def running_members(self) -> list[Member]:
        """Return the agents that do not count as gone."""
        return [member for member in self.members if not member.is_killed]

    def charges_when_stopped(self, member: Member) -> int | None:
        """Return None, because the containers' output is not read. See RunningFleet.charges_when_stopped."""
        return None

    def spending(self, member: Member) -> Spending:
        """Return the agent's spending from its ledger; see RunningFleet.spending."""
        ledger = Ledger.read(member.ledger)
        try:
            return ledger.spending()
        finally:
            ledger.close()


def _member(place: Place) -> Member:
    return Member(f"agent-{place.directory.name}", load(place.state / IDENTITY), place.state)


def _ready(place: Place) -> float:
    """Return the seconds between writing the device's configuration and creating the socket on which it answers."""
    return max(0.0, (place.state / "agent.sock").stat().st_mtime - place.config.stat().st_mtime)
