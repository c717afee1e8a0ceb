"""Schedule which faults affect each agent in each cycle, for both simulated agents and real processes."""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sottovoce_lab.simulator.faults import CycleSpan, Faults, Sessions
from sottovoce_lab.simulator.vector.churn import Churn, LogNormal

_ONLINE = 0.9  # fraction of agents online at any moment under log-normal churn, as in Ormándi et al. 2013
_MAX_NAMED = 12
_DAYS = (40.0, 400.0)
"""Minimum and maximum number of days by which a wrong wall clock is ahead or behind."""


@dataclass(frozen=True, slots=True)
class CycleFaults:
    """A fleet's fault events at one cycle.

    Attributes:
        agents_to_kill: the indices of the agents to kill.
        agents_to_restart: the indices of the agents to restart.
        cut_off: the indices of the agents that are cut off from all others, from this cycle on.
        full_disks: the indices of the agents whose disks are full, from this cycle on.
        clock_errors: how many days wall clocks are ahead from this cycle on, by agent index; other clocks are correct.
        agents_to_revoke: the indices of the agents that the fleet revokes in this cycle.
        notes: descriptions of all events except churn events, which are too frequent to list.
    """

    agents_to_kill: tuple[int, ...]
    agents_to_restart: tuple[int, ...]
    cut_off: frozenset[int]
    full_disks: frozenset[int]
    clock_errors: Mapping[int, float]
    agents_to_revoke: tuple[int, ...]
    notes: tuple[str, ...]


class FaultSchedule:
    """A run's fault schedule, which depends only on the requested faults and the seed.

    Args:
        faults: the requested faults.
        names: agent names, by agent index.
        seed: seed for the choice of agents and for log-normal churn.
    """

    def __init__(self, faults: Faults, names: Sequence[str], seed: int) -> None:
        self._faults = faults
        self._names = names
        self._random = random.Random(seed)
        indices = range(len(names))
        kill, restart, partition = faults.kill, faults.restart, faults.partition
        self._to_kill = self._random.sample(indices, round(kill.share * len(names))) if kill else []
        self._to_restart = frozenset(self._to_kill[: round(restart.share * len(self._to_kill))] if restart else ())
        side = self._random.sample(indices, round(partition.share * len(names))) if partition else []
        self._side = frozenset(side)
        self._churn: Churn | None = None
        if isinstance(faults.churn, Sessions):
            law = LogNormal(_ONLINE, faults.churn.mu, faults.churn.sigma)
            self._churn = Churn(len(names), law, np.random.default_rng(seed))
        clock, disk, revoke = faults.clock, faults.disk_full, faults.revoke
        self._clock_errors = {
            index: self._random.uniform(*_DAYS) * self._random.choice((-1, 1))
            for index in (self._random.sample(indices, round(clock.share * len(names))) if clock else ())
        }
        self._full_disks = frozenset(self._random.sample(indices, round(disk.share * len(names))) if disk else ())
        self._revoked_agents = indices[len(names) - round(revoke.share * len(names)) :] if revoke else range(0)
        self._online = np.ones(len(names), dtype=np.bool_)
        self._down: frozenset[int] = frozenset()
        self._last_cycle = 0

    def advance_to(self, cycle: int) -> CycleFaults:
        """Return the events that happen when the fleet reaches this cycle.

        Cycles must be requested in increasing order; gaps are allowed.
        """
        new_cycles, self._last_cycle = range(self._last_cycle + 1, cycle + 1), cycle
        down = self._killed_agents(cycle) | self._absent_agents(new_cycles)
        agents_to_kill, agents_to_restart = tuple(sorted(down - self._down)), tuple(sorted(self._down - down))
        self._down = down
        revoke = self._faults.revoke
        return CycleFaults(
            agents_to_kill=agents_to_kill,
            agents_to_restart=agents_to_restart,
            cut_off=self._side if _is_during(self._faults.partition, cycle) else frozenset(),
            full_disks=self._full_disks if _is_during(self._faults.disk_full, cycle) else frozenset(),
            clock_errors=self._clock_errors if _is_during(self._faults.clock, cycle) else {},
            agents_to_revoke=tuple(self._revoked_agents) if revoke and revoke.cycle in new_cycles else (),
            notes=tuple(self._describe_events(new_cycles, cycle)),
        )

    def will_restart_after(self, cycle: int) -> bool:
        """Return whether an agent that is down at this cycle will restart."""
        restart, absences = self._faults.restart, self._faults.churn
        if self._churn is not None or (restart is not None and restart.cycle > cycle and bool(self._to_restart)):
            return True
        return isinstance(absences, tuple) and any(
            absence.down_cycle <= cycle < absence.up_cycle for absence in absences
        )

    def _killed_agents(self, cycle: int) -> frozenset[int]:
        kill, restart = self._faults.kill, self._faults.restart
        if kill is None or cycle < kill.cycle:
            return frozenset()
        return frozenset(self._to_kill) - (self._to_restart if restart and cycle >= restart.cycle else frozenset())

    def _absent_agents(self, new_cycles: range) -> frozenset[int]:
        if self._churn is not None:
            for cycle in new_cycles:  # process every cycle, because gaps must not change the random draws
                self._online = self._churn.advance_to(cycle)
            return frozenset(np.flatnonzero(~self._online).tolist())
        absences = self._faults.churn if isinstance(self._faults.churn, tuple) else ()
        return frozenset(
            absence.agent for absence in absences if absence.down_cycle <= self._last_cycle < absence.up_cycle
        )

    def _describe_events(self, new_cycles: range, cycle: int) -> Iterable[str]:
        kill, restart, partition = self._faults.kill, self._faults.restart, self._faults.partition
        revoke, disk, clock = self._faults.revoke, self._faults.disk_full, self._faults.clock
        if kill and kill.cycle in new_cycles:
            yield f"cycle {cycle}: killed {self._agent_names(self._to_kill)}"
        if restart and restart.cycle in new_cycles:
            yield f"cycle {cycle}: restarted {self._agent_names(self._to_restart)}"
        if partition and partition.first_cycle in new_cycles:
            yield f"cycle {cycle}: cut off {self._agent_names(self._side)}"
        if partition and partition.end_cycle in new_cycles:
            yield f"cycle {cycle}: the two sides are connected again"
        if revoke and revoke.cycle in new_cycles:
            yield f"cycle {cycle}: revoked {self._agent_names(self._revoked_agents)}"
        if disk and disk.first_cycle in new_cycles:
            yield f"cycle {cycle}: filled the disks of {self._agent_names(self._full_disks)}"
        if clock and clock.first_cycle in new_cycles:
            yield f"cycle {cycle}: set wrong clocks on {self._agent_names(self._clock_errors)}"

    def _agent_names(self, indices: Iterable[int]) -> str:
        names = [self._names[index] for index in sorted(indices)]
        return ", ".join(names) if len(names) <= _MAX_NAMED else f"{len(names)} agents"


def _is_during(span: CycleSpan | None, cycle: int) -> bool:
    return span is not None and span.first_cycle <= cycle < span.end_cycle
