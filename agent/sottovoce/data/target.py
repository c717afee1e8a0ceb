"""Target of a regression: its unit, and a prediction without learning."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """Measurement of predictions of the last column by test harnesses.

    Attributes:
        unit: unit in which errors are reported, for example `kWh`.
        told: targets float64[N, m], predicted or true, in that unit, for records float64[m, d].
        baselines: by name, predictions for the test records without learning, float64[m] in the unit.
        overlap: most records that one measured value is part of.
    """

    unit: str
    told: Callable[[Floats, Floats], Floats] = field(repr=False)
    baselines: Mapping[str, Floats] = field(repr=False)
    overlap: int
