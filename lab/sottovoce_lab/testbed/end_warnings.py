"""Warnings about agents that end a run with unfinished steps, or with a much worse model than the fleet's."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce_lab.testbed.measure import Meter, Metrics, Quality

_MAX_SHORTFALL = 0.1  # an agent is left behind if its accuracy is more than this below the mean
_MAX_NAMED = 5


def unfinished_warnings(status: Mapping[str, Any] | None, name: str) -> list[str]:
    """Return a warning if an agent's last status shows unspent budget but unfinished private steps."""
    if status is None or status.get("steps") is None or status["privacy"]["exhausted"]:
        return []
    if status["steps_done"] >= status["steps"]:
        return []
    return [f"{name} has taken {status['steps_done']} of its {status['steps']} private steps: use more cycles"]


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
