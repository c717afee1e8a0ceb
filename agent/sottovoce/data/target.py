"""A regression's target, with its unit and baseline predictions that need no learning."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """Description of a regression's target, which test harnesses use to measure predictions of the last column.

    Attributes:
        unit: unit in which errors are reported, for example `kWh`.
        convert: function that converts targets float64[N, m], predicted or true, of records float64[m, d] to that unit.
        baselines: predictions for the test records without learning, keyed by name, float64[m] in that unit.
        overlap: maximum number of records to which one measured value contributes.
    """

    unit: str
    convert: Callable[[Floats, Floats], Floats] = field(repr=False)
    baselines: Mapping[str, Floats] = field(repr=False)
    overlap: int
