"""Fate of a fleet, cycle by cycle: crashed and partitioned devices, for simulated agents and for processes."""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sottovoce_lab.simulator.faults import During, Faults, Sessions
from sottovoce_lab.simulator.vector.churn import Churn, LogNormal

_ONLINE = 0.9  # share of agents up at any moment under log-normal churn, as in Ormándi et al. 2013
_NAMED = 12
_DAYS = (40.0, 400.0)
"""Least and most days by which a wrong wall clock is ahead or behind."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Events that happen to a fleet at one cycle.

    Attributes:
        killed: agents to be killed, by place.
        restarted: agents to be started again.
        cut_off: agents that are cut off from all other agents from now on.
        full: agents whose disks are full from now on.
        wrong: lead of wall clocks from now on, in days, by place; all other clocks are right.
        revoked: agents that the fleet revokes now.
        notes: descriptions of all events except churn, which is too frequent.
    """

    killed: tuple[int, ...]
    restarted: tuple[int, ...]
    cut_off: frozenset[int]
    full: frozenset[int]
    wrong: Mapping[int, float]
    revoked: tuple[int, ...]
    notes: tuple[str, ...]


class Fate:
    """Fate of the agents of one run, decided by its seed before it begins.

    Args:
        faults: the requested faults.
        names: names of the agents, by place.
        seed: seed of the choice of agents, and of log-normal churn.
    """

    def __init__(self, faults: Faults, names: Sequence[str], seed: int) -> None:
        self._faults = faults
        self._names = names
        self._random = random.Random(seed)
        everybody = range(len(names))
        kill, restart, partition = faults.kill, faults.restart, faults.partition
        self._doomed = self._random.sample(everybody, round(kill.share * len(names))) if kill else []
        self._spared = frozenset(self._doomed[: round(restart.share * len(self._doomed))] if restart else ())
        side = self._random.sample(everybody, round(partition.share * len(names))) if partition else []
        self._side = frozenset(side)
        self._churn: Churn | None = None
        if isinstance(faults.churn, Sessions):
            law = LogNormal(_ONLINE, faults.churn.mu, faults.churn.sigma)
            self._churn = Churn(len(names), law, np.random.default_rng(seed))
        clock, disk, revoke = faults.clock, faults.disk_full, faults.revoke
        self._wrong = {
            place: self._random.uniform(*_DAYS) * self._random.choice((-1, 1))
            for place in (self._random.sample(everybody, round(clock.share * len(names))) if clock else ())
        }
        self._full = frozenset(self._random.sample(everybody, round(disk.share * len(names))) if disk else ())
        self._revoked = everybody[len(names) - round(revoke.share * len(names)) :] if revoke else range(0)
        self._online = np.ones(len(names), dtype=np.bool_)
        self._down: frozenset[int] = frozenset()
        self._last = 0

    def at(self, cycle: int) -> Turn:
        """Return the events when the fleet reaches this cycle. Cycles must be requested in order; gaps are allowed."""
        passed, self._last = range(self._last + 1, cycle + 1), cycle
        down = self._killed(cycle) | self._absent(passed)
        killed, restarted = tuple(sorted(down - self._down)), tuple(sorted(self._down - down))
        self._down = down
        revoke = self._faults.revoke
        return Turn(
            killed=killed,
            restarted=restarted,
            cut_off=self._side if _is_during(self._faults.partition, cycle) else frozenset(),
            full=self._full if _is_during(self._faults.disk_full, cycle) else frozenset(),
            wrong=self._wrong if _is_during(self._faults.clock, cycle) else {},
            revoked=tuple(self._revoked) if revoke and revoke.cycle in passed else (),
            notes=tuple(self._notes(passed, cycle)),
        )

    def brings_back(self, cycle: int) -> bool:
        """Check whether an agent that is down at this cycle will restart."""
        restart, absences = self._faults.restart, self._faults.churn
        if self._churn is not None or (restart is not None and restart.cycle > cycle and bool(self._spared)):
            return True
        return isinstance(absences, tuple) and any(absence.down <= cycle < absence.up for absence in absences)

    def _killed(self, cycle: int) -> frozenset[int]:
        kill, restart = self._faults.kill, self._faults.restart
        if kill is None or cycle < kill.cycle:
            return frozenset()
        return frozenset(self._doomed) - (self._spared if restart and cycle >= restart.cycle else frozenset())

    def _absent(self, passed: range) -> frozenset[int]:
        if self._churn is not None:
            for cycle in passed:  # no cycle is skipped, so that the draws are equal
                self._online = self._churn.at(cycle)
            return frozenset(np.flatnonzero(~self._online).tolist())
        absences = self._faults.churn if isinstance(self._faults.churn, tuple) else ()
        return frozenset(absence.agent for absence in absences if absence.down <= self._last < absence.up)

    def _notes(self, passed: range, cycle: int) -> Iterable[str]:
        kill, restart, partition = self._faults.kill, self._faults.restart, self._faults.partition
        revoke, disk, clock = self._faults.revoke, self._faults.disk_full, self._faults.clock
        if kill and kill.cycle in passed:
            yield f"cycle {cycle}: killed {self._agent_names(self._doomed)}"
        if restart and restart.cycle in passed:
            yield f"cycle {cycle}: restarted {self._agent_names(self._spared)}"
        if partition and partition.begins in passed:
            yield f"cycle {cycle}: cut off {self._agent_names(self._side)}"
        if partition and partition.ends in passed:
            yield f"cycle {cycle}: the two sides meet again"
        if revoke and revoke.cycle in passed:
            yield f"cycle {cycle}: revoked {self._agent_names(self._revoked)}"
        if disk and disk.begins in passed:
            yield f"cycle {cycle}: full disks of {self._agent_names(self._full)}"
        if clock and clock.begins in passed:
            yield f"cycle {cycle}: wrong clocks of {self._agent_names(self._wrong)}"

    def _agent_names(self, places: Iterable[int]) -> str:
        hit = [self._names[place] for place in sorted(places)]
        return ", ".join(hit) if len(hit) <= _NAMED else f"{len(hit)} agents"


def _is_during(during: During | None, cycle: int) -> bool:
    return during is not None and during.begins <= cycle < during.ends
