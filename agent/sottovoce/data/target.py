"""Target of a regression: its unit, and a prediction without learning."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """Description of a regression's target, by which test harnesses measure predictions of the last column.

    Attributes:
        unit: unit in which errors are reported, for example `kWh`.
        told: function that converts targets float64[N, m], predicted or true, of records float64[m, d] to that unit.
        baselines: by name, predictions for the test records without learning, float64[m] in the unit.
        overlap: most records that one measured value is part of.
    """

    unit: str
    told: Callable[[Floats, Floats], Floats] = field(repr=False)
    baselines: Mapping[str, Floats] = field(repr=False)
    overlap: int
