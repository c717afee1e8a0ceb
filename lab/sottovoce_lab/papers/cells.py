"""Summarise the runs with the same panel, series and axis values over seeds."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce_lab.experiments.saved_runs import Outcome
from sottovoce_lab.papers.runs import RunPosition

# Two-sided 95 % quantiles of Student's t for 1 … 30 degrees of freedom, then the normal quantile.
_T = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131),
    *(2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
_NORMAL = 1.960
_LARGE = 1e4
MIN_SEEDS = 3
"""Minimum number of seeds for an interval, and therefore for a verdict."""

LOGARITHM = "log10_"
"""Prefix for the decimal logarithm of a measure, for losses that differ by orders of magnitude."""

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Cell:
    """The runs at one position in an experiment, ordered by seed.

    Attributes:
        measures: each run's measure, float64[seeds].
        curves: for each measure, the cycles with the mean and its half-width over seeds.
        privacy: the privacy guarantee, the same for all seeds.
        majority: the mean accuracy of always predicting the most frequent class; None if there are no classes.
    """

    measures: NDArray[np.float64]
    curves: dict[str, list[tuple[float, float, float]]]
    privacy: dict[str, Any]
    majority: float | None

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return float(self.measures.mean())

    def interval(self, measure: str) -> Interval | None:
        """Return the 95 % confidence interval of the mean, within the measure's range; None for too few seeds."""
        if len(self.measures) < MIN_SEEDS:
            return None
        half_width = half_interval(self.measures)
        low, high = measure_range(measure)
        return max(low, self.mean - half_width), min(high, self.mean + half_width)


CellKey = tuple[str, str, Any, Any]
"""A cell's panel, series, x value and y value."""

Cells = dict[CellKey, Cell]


def build_cells(outcomes: Mapping[RunPosition, Outcome], measure: str) -> Cells:
    """Group outcomes by panel, series and axis values, and summarise each group."""
    groups: dict[CellKey, list[tuple[int, Outcome]]] = {}
    for position, outcome in outcomes.items():
        groups.setdefault((position.panel, position.series, position.x, position.y), []).append(
            (position.seed, outcome)
        )
    return {key: _cell([outcome for _, outcome in sorted(runs, key=_seed)], measure) for key, runs in groups.items()}


def format_measure(value: float, sign: str = "") -> str:
    """Format a measure with three decimals or, if it is large, two digits and a power of ten; `sign` may be "+"."""
    return f"{value:{sign}.3f}" if abs(value) < _LARGE else f"{value:{sign}.1e}"


def format_interval(mean: float, interval: Interval | None, sign: str = "") -> str:
    """Format a mean with its interval, if it has one; `sign` may be "+"."""
    text = format_measure(mean, sign)
    if interval is None:
        return text
    return f"{text} ({format_measure(interval[0], sign)} to {format_measure(interval[1], sign)})"


def measure_range(measure: str) -> Interval:
    """Return the smallest and the largest possible value of a measure, by its name in a report's `final` part."""
    lowest = -math.inf if measure.startswith(LOGARITHM) else 0.0
    return (0.0, 1.0) if measure.startswith("accuracy") else (lowest, math.inf)


def format_value(value: Any) -> str:
    """Format an axis value for tables, labels and messages."""
    return "∞" if value == math.inf else f"{value:g}" if isinstance(value, int | float) else str(value)


def half_interval(numbers: NDArray[np.float64]) -> float:
    """Return the half-width of the 95 % confidence interval of the mean, t · s/√n; NaN for fewer than two numbers."""
    n = len(numbers)
    if n < 2:
        return math.nan
    quantile = _T[n - 2] if n - 2 < len(_T) else _NORMAL
    return quantile * float(numbers.std(ddof=1)) / math.sqrt(n)


def seeds_to_decide(numbers: NDArray[np.float64], bound: float) -> float:
    """Return how many seeds put the interval on one side of a bound if mean and deviation stay those of `numbers`.

    Infinity if the mean is the bound, or if there are too few numbers to know the deviation.
    """
    distance = abs(float(numbers.mean()) - bound)
    if len(numbers) < 2 or not distance:
        return math.inf
    ratio = float(numbers.std(ddof=1)) / distance
    few = (n for n in range(MIN_SEEDS, len(_T) + 2) if _T[n - 2] * ratio < math.sqrt(n))
    return next(few, math.ceil((_NORMAL * ratio) ** 2))


def _cell(outcomes: list[Outcome], measure: str) -> Cell:
    values = [outcome["final"][measure.removeprefix(LOGARITHM)] for outcome in outcomes]
    measures = np.log10(values) if measure.startswith(LOGARITHM) else np.array(values)
    majorities = [outcome["majority"] for outcome in outcomes]
    majority = None if None in majorities else float(np.mean(majorities))
    return Cell(measures, _curves([outcome["curve"] for outcome in outcomes]), outcomes[0]["privacy"], majority)


def _curves(runs: list[list[Any]]) -> dict[str, list[tuple[float, float, float]]]:
    curves: dict[str, list[tuple[float, float, float]]] = {}
    for points in zip(*runs, strict=False):
        for name in points[0][1]:
            values = np.array([point[1][name] for point in points])
            curves.setdefault(name, []).append((points[0][0], float(values.mean()), half_interval(values)))
    return curves


def _seed(run: tuple[int, Outcome]) -> int:
    return run[0]
