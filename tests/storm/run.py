"""Run of one seed, and the complaints about it."""

import math
import traceback
from dataclasses import dataclass
from typing import Any

from sottovoce.algorithms.cell.public.state import CellState
from sottovoce.errors import NetworkError
from sottovoce_lab.testbed import memory
from sottovoce_lab.testbed.plan import plan
from sottovoce_lab.testbed.progress import Watcher

from tests.cells.liveness import BOUND
from tests.storm.extra_faults import ExtraFaults
from tests.storm.weather import Weather

_SLOWEST = 4
"""Divisor of the cycles that a live device must have completed after five times as long: rounds wait for the slowest.

For each period that a vault takes for an answer it may be one part more: a round of several phases waits for it, and at
half of all messages lost `pdsl` was seen to take twenty periods a round, steadily (seed 2276).
"""

_SUMS_ALONE = "average in cells"
"""Runs in which a device publishes nothing before a sum is opened, which weather may delay as long as it lasts."""

_LARGEST_LOSS = 1e6  # nats; for a model whose parameters are bounded


@dataclass(frozen=True)
class Outcome:
    """Outcome of a run.

    Attributes:
        weather: the run.
        complaint: description and place of the failure; empty without one.
        messages: number of messages sent.
        releases: number of releases made.
    """

    weather: Weather
    complaint: str
    messages: int = 0
    releases: int = 0


class SumTimes:
    """Observer of the times at which devices learn of their first secure sum, and of the sums that they know."""

    def __init__(self) -> None:
        self._times: dict[str, float] = {}
        self._sums: dict[str, bytes] = {}

    def observe(self, event: str, at: float, device: str, state: Any, **facts: Any) -> None:
        """See EventObserver.observe."""
        self._times.setdefault(device, math.inf)
        if isinstance(state, CellState) and state.numerator is not None:
            self._times[device] = min(self._times[device], at)
            self._sums[device] = state.numerator.tobytes()

    def find_complaint(self, weather: Weather) -> str:
        """Return which device had no sum in time, or that devices have different sums; empty if all is well."""
        late = [node for node, time in self._times.items() if time > (weather.settles or math.inf) + BOUND]
        if late:
            return f"{late[0]} and {len(late) - 1} others have no sum {BOUND} cycles after the last fault"
        return f"{len({*self._sums.values()})} different sums" if len({*self._sums.values()}) > 1 else ""


def play(weather: Weather) -> Outcome:
    """Play a run, asserting every invariant of the simulator after every event, and examine the result."""
    try:
        run_plan = plan(weather.options())
        extra_faults = ExtraFaults(run_plan, weather.liar, plan(weather.options(later=True)) if weather.later else None)
        sums = SumTimes()
        report = memory.run(run_plan, Watcher(), sums if weather.settles else None, agent_faults=extra_faults)
    except NetworkError:  # no device with a model is left, which a storm may cause
        return Outcome(weather, "")
    except Exception as error:  # noqa: BLE001 - every error is a complaint
        last = traceback.extract_tb(error.__traceback__)[-1]
        return Outcome(weather, f"{type(error).__name__}: {error} ({last.filename.rpartition('/')[2]}:{last.lineno})")
    document = report.document()
    messages, releases = document["traffic"]["messages"], document["privacy"]["releases"]
    complaint = _find_complaint(weather, document) or sums.find_complaint(weather)
    return Outcome(weather, complaint, messages, releases)


def _find_complaint(weather: Weather, document: dict) -> str:  # type: ignore[type-arg]
    loss, privacy = document["final"]["loss_mean"], document["privacy"]
    budget, spent = privacy["epsilon"], privacy["spent_epsilon_max"]
    if not (math.isfinite(loss) and loss < _LARGEST_LOSS):
        return f"a model went out of bounds: its loss is {loss}"
    if not privacy["ledgers_agree"]:
        return "a ledger does not agree with what was released"
    if budget is not None and spent is not None and spent > budget:
        return f"ε {spent} was spent of {budget}"
    minimum_cycles = 1 if weather.mixing == _SUMS_ALONE else 0
    active = [agent for agent in document["agents"] if agent["alive"] and agent["cycles"] >= minimum_cycles]
    slowest = _SLOWEST + weather.options().faults.vault
    stuck = [agent for agent in active if agent["cycles"] * slowest < weather.cycles]
    if stuck:
        return f"{stuck[0]['id']} is stuck after {stuck[0]['cycles']} of {weather.cycles} cycles, and others wait"
    return ""


def shrink(outcome: Outcome) -> Outcome:
    """Look for an equal complaint with fewer faults, in case not all are needed."""
    smaller = True
    while smaller:
        smaller = False
        for kind in outcome.weather.kinds:
            candidate = play(outcome.weather.without(kind))
            if candidate.complaint and candidate.complaint[:20] == outcome.complaint[:20]:
                outcome, smaller = candidate, True
                break
    return outcome
