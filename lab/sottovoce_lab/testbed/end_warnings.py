"""Warnings about agents that end a run with unfinished steps, with late rounds, or with a much worse model."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce_lab.testbed.measure import Meter, Metrics, Quality

_MAX_SHORTFALL = 0.1  # an agent is left behind if its accuracy is more than this below the mean
_MAX_NAMED = 5
_MAX_MISSED = 0.05  # of all rounds may miss a neighbour's message


def unfinished_warnings(status: Mapping[str, Any] | None, name: str) -> list[str]:
    """Return a warning if an agent's last status shows unspent budget but unfinished private steps."""
    if status is None or status.get("steps") is None or status["privacy"]["exhausted"]:
        return []
    if status["steps_done"] >= status["steps"]:
        return []
    return [f"{name} has taken {status['steps_done']} of its {status['steps']} private steps: use more cycles"]


def late_round_warnings(statuses: Iterable[Mapping[str, Any] | None]) -> list[str]:
    """Return a warning if more than one round in twenty went on without a neighbour's message.

    Args:
        statuses: the agents' last statuses, or the details of their progress with `steps_done`.
    """
    known = [status for status in statuses if status is not None and "missed_phases" in status]
    missed, rounds = (sum(int(status[name]) for status in known) for name in ("missed_phases", "steps_done"))
    if missed <= _MAX_MISSED * rounds:
        return []
    return [
        f"late or lost messages: {missed} times in {rounds} rounds, an agent went on without a neighbour's; use a "
        "longer period, or a learner that needs no rounds (docs/reference/learners.md)"
    ]


def left_behind_warnings(meter: object, models: Mapping[str, NDArray[np.float64]], final: Quality) -> list[str]:
    """Return warnings about agents whose accuracy is more than 0.1 below the fleet's mean."""
    if not isinstance(final, Metrics) or not isinstance(meter, Meter):
        return []
    if final.accuracy_min >= final.accuracy_mean - _MAX_SHORTFALL:
        return []
    accuracies = {name: meter.measure_all([model]).accuracy_mean for name, model in models.items()}
    behind = {
        name: accuracy for name, accuracy in accuracies.items() if accuracy < final.accuracy_mean - _MAX_SHORTFALL
    }
    if len(behind) > _MAX_NAMED:
        return [
            f"{len(behind)} of {len(models)} agents were left behind: the lowest accuracy is "
            f"{min(behind.values()):.3f}, while the mean is {final.accuracy_mean:.3f}"
        ]
    return [
        f"{name} was left behind: its accuracy is {accuracy:.3f}, while the mean is {final.accuracy_mean:.3f}"
        for name, accuracy in behind.items()
    ]
