"""Warnings at the end of a run: agents that lag behind, and steps that were not taken."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce_lab.testbed.measure import Measures, Meter, Quality

_BEHIND = 0.1  # accuracy below the mean
_MAX_NAMED = 5


def unfinished_warnings(status: Mapping[str, Any] | None, name: str) -> list[str]:
    """Return a warning if, by its last status, an agent still had private steps to take."""
    if status is None or status.get("steps") is None or status["privacy"]["exhausted"]:
        return []
    if status["steps_done"] >= status["steps"]:
        return []
    return [f"{name} has done {status['steps_done']} of its {status['steps']} private steps: give it more cycles"]


def left_behind_warnings(meter: object, models: Mapping[str, NDArray[np.float64]], final: Quality) -> list[str]:
    """Return warnings about agents whose model is far worse than the fleet's."""
    if not isinstance(final, Measures) or not isinstance(meter, Meter):
        return []
    if final.accuracy_min >= final.accuracy_mean - _BEHIND:
        return []
    accuracies = {name: meter.final([model]).accuracy_mean for name, model in models.items()}
    behind = {name: own for name, own in accuracies.items() if own < final.accuracy_mean - _BEHIND}
    if len(behind) > _MAX_NAMED:
        return [
            f"{len(behind)} of {len(models)} agents were left behind: accuracy {min(behind.values()):.3f} at the "
            f"least, where the mean is {final.accuracy_mean:.3f}"
        ]
    return [
        f"{name} was left behind: accuracy {own:.3f}, where the mean is {final.accuracy_mean:.3f}"
        for name, own in behind.items()
    ]
