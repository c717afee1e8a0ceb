"""Run of one seed, and the complaints about it."""

import math
import traceback
from dataclasses import dataclass

from sottovoce.errors import NetworkError
from sottovoce_lab.testbed import memory
from sottovoce_lab.testbed.plan import plan
from sottovoce_lab.testbed.progress import Watcher

from tests.storm.beside import Beside
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


def played(weather: Weather) -> Outcome:
    """Play a run, with every law of the simulator asserted after every event, and examine the result."""
    try:
        made = plan(weather.options())
        beside = Beside(made, weather.liar, plan(weather.options(later=True)) if weather.later else None)
        report = memory.run(made, Watcher(), weather=beside)
    except NetworkError:  # no device with a model was left, which a storm may cause
        return Outcome(weather, "")
    except Exception as error:  # noqa: BLE001 - every error is a complaint
        last = traceback.extract_tb(error.__traceback__)[-1]
        return Outcome(weather, f"{type(error).__name__}: {error} ({last.filename.rpartition('/')[2]}:{last.lineno})")
    document = report.document()
    return Outcome(weather, _wrong(weather, document), document["traffic"]["messages"], document["privacy"]["releases"])


def _wrong(weather: Weather, document: dict) -> str:  # type: ignore[type-arg]
    loss, privacy = document["final"]["loss_mean"], document["privacy"]
    promised, spent = privacy["epsilon"], privacy["spent_epsilon_max"]
    if not (math.isfinite(loss) and loss < _LARGEST_LOSS):
        return f"a model went out of bounds: its loss is {loss}"
    if not privacy["ledgers_agree"]:
        return "a ledger does not agree with what was released"
    if promised is not None and spent is not None and spent > promised:
        return f"ε {spent} was spent of {promised}"
    least = 1 if weather.mixing == _SUMS_ALONE else 0
    at_work = [one for one in document["agents"] if one["alive"] and one["cycles"] >= least]
    slowest = _SLOWEST + weather.options().faults.vault
    late = [one for one in at_work if one["cycles"] * slowest < weather.cycles]
    if late:
        return f"{late[0]['id']} is stuck: it has had {late[0]['cycles']} of {weather.cycles} cycles, and others wait"
    return ""


def shrunk(outcome: Outcome) -> Outcome:
    """Look for an equal complaint with fewer faults, in case not all are needed."""
    smaller = True
    while smaller:
        smaller = False
        for kind in outcome.weather.kinds:
            less = played(outcome.weather.without(kind))
            if less.complaint and less.complaint[:20] == outcome.complaint[:20]:
                outcome, smaller = less, True
                break
    return outcome
