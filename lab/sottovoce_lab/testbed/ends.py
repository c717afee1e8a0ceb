"""What a reader of a run's end must know: who was left behind, what was not finished, what a trivial rule beats."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce_lab.testbed.measure import Measures, Meter, Quality

_BEHIND = 0.1  # of accuracy, below the mean


def unfinished(status: Mapping[str, Any] | None, name: str) -> list[str]:
    """Whether an agent still had private steps to do, by what it last said of itself."""
    if status is None or status.get("steps") is None or status["privacy"]["exhausted"]:
        return []
    if status["steps_done"] >= status["steps"]:
        return []
    return [f"{name} has done {status['steps_done']} of its {status['steps']} private steps: give it more cycles"]


def left_behind(meter: object, models: Mapping[str, NDArray[np.float64]], final: Quality) -> list[str]:
    """Agents whose model is far worse than the fleet's, and a fleet that is worse than the most frequent class."""
    if not isinstance(final, Measures) or not isinstance(meter, Meter):
        return []
    found = []
    if final.accuracy_min < final.accuracy_mean - _BEHIND:
        for name, model in models.items():
            own = meter.final([model]).accuracy_mean
            if own < final.accuracy_mean - _BEHIND:
                found.append(f"{name} was left behind: accuracy {own:.3f}, where the mean is {final.accuracy_mean:.3f}")
    if final.accuracy_mean < meter.majority:
        found.append(
            f"accuracy {final.accuracy_mean:.3f} is below {meter.majority:.3f}, which always saying the most frequent "
            "class gets"
        )
    return found
