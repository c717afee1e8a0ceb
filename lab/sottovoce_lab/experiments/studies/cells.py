"""What the runs of a study come to: a cell for each panel, series and value, over seeds."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce_lab.experiments.kept_runs import Outcome
from sottovoce_lab.experiments.studies.runs import Place

# Two-sided 95 % quantiles of Student's t for 1 … 30 degrees of freedom; beyond, the normal's.
_T = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131),
    *(2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
_NORMAL = 1.960
FEWEST = 3
"""Seeds from which a confidence interval is told."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The runs at one place, by seed.

    Attributes:
        measures: float64[seeds].
        curve: cycle and measure, averaged over seeds.
        privacy: the guarantee, alike for all.
    """

    measures: NDArray[np.float64]
    curve: list[tuple[int, float]]
    privacy: dict[str, Any]

    @property
    def mean(self) -> float:
        """Over seeds."""
        return float(self.measures.mean())

    @property
    def half(self) -> float:
        """Half the 95 % confidence interval of the mean over seeds; NaN from fewer than three, which say too little."""
        return half_interval(self.measures)


Where = tuple[str, str, Any]
Cells = dict[Where, Cell]


def cells(outcomes: Mapping[Place, Outcome]) -> Cells:
    """Outcomes by panel, series and value."""
    found: dict[Where, list[tuple[int, Outcome]]] = {}
    for place, outcome in outcomes.items():
        found.setdefault((place.panel, place.series, place.value), []).append((place.seed, outcome))
    return {where: _cell([outcome for _, outcome in sorted(runs, key=_seed)]) for where, runs in found.items()}


def half_interval(numbers: NDArray[np.float64]) -> float:
    """t · s/√n at 95 %; NaN from fewer than three numbers."""
    n = len(numbers)
    if n < FEWEST:
        return math.nan
    quantile = _T[n - 2] if n - 2 < len(_T) else _NORMAL
    return quantile * float(numbers.std(ddof=1)) / math.sqrt(n)


def _cell(outcomes: list[Outcome]) -> Cell:
    curves = [outcome["curve"] for outcome in outcomes]
    averaged = [(points[0][0], float(np.mean([at[1] for at in points]))) for points in zip(*curves, strict=False)]
    return Cell(np.array([outcome["measure"] for outcome in outcomes]), averaged, outcomes[0]["privacy"])


def _seed(run: tuple[int, Outcome]) -> int:
    return run[0]
