"""Simulated runs: their curves as arrays, data frames or pictures."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray
from sottovoce.errors import UsageError

from sottovoce_lab.papers.cells import half_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Simulated run of a fleet.

    Attributes:
        learner: name of the algorithm.
        epsilon: total ε that each device may spend; infinite without noise.
        seed: seed of the data split and of the simulated network and noise.
        cycles: int64[t], cycles at which the models were measured.
        curves: float64[t] by measure, such as `accuracy_mean`: the mean over devices, on records that no device holds.
        final: each measure at the end.
        majority: accuracy of always predicting the most frequent class; None in a regression.
        privacy: the statement that devices would have if the noise were real, with the names of
            `sottovoce.PrivacyStatement`.
        wire_bytes: bytes sent by all devices together.
        models: float64[devices, P], each device's model at the end.
    """

    learner: str
    epsilon: float
    seed: int
    cycles: NDArray[np.int64]
    curves: Mapping[str, Floats]
    final: Mapping[str, float]
    majority: float | None
    privacy: Mapping[str, Any]
    wire_bytes: int
    models: Floats


class Runs(Sequence[Run]):
    """Runs of one call of `simulate`, ordered by learner, then ε, then seed.

    Args:
        runs: the runs, at least one.
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = tuple(runs)

    @overload
    def __getitem__(self, place: int) -> Run: ...
    @overload
    def __getitem__(self, place: slice) -> "Runs": ...
    def __getitem__(self, place: int | slice) -> "Run | Runs":
        """Return one run, or a slice of the runs."""
        return Runs(self._runs[place]) if isinstance(place, slice) else self._runs[place]

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def frame(self) -> Any:
        """Return a pandas data frame: one row per run, with its learner, ε, seed and measures at the end.

        Raises:
            UsageError: if pandas is not installed.
        """
        try:
            import pandas  # type: ignore[import-not-found,import-untyped,unused-ignore]
        except ImportError as error:
            raise UsageError("frame() needs pandas: pip install pandas") from error
        rows = [
            {"learner": run.learner, "epsilon": run.epsilon, "seed": run.seed, "majority": run.majority, **run.final}
            for run in self
        ]
        return pandas.DataFrame(rows)

    def plot(self, axes: "Axes | None" = None, measure: str = "accuracy_mean") -> "Axes":
        """Plot a measure against ε if the runs have several, else over cycles; means over seeds with 95 % intervals.

        Args:
            axes: matplotlib axes to draw into; None for new axes.
            measure: a key of `Run.final`.

        Returns:
            the axes.

        Raises:
            UsageError: if matplotlib is not installed, or the runs have no such measure.
        """
        try:
            from matplotlib import pyplot
        except ImportError as error:
            raise UsageError("plot() needs matplotlib: pip install 'sottovoce[experiments]'") from error
        if any(measure not in run.final for run in self):
            raise UsageError(f"measure {measure}: choose one of {', '.join(self[0].final)}")
        axes = pyplot.subplots()[1] if axes is None else axes
        several = len({run.epsilon for run in self}) > 1
        for learner in dict.fromkeys(run.learner for run in self):
            own = [run for run in self if run.learner == learner]
            if several:
                self._against_epsilon(axes, own, measure)
            else:
                curves = np.stack([run.curves[measure] for run in own])
                axes.plot(own[0].cycles, curves.mean(axis=0), label=learner)
        if measure.startswith("accuracy") and (trivial := self[0].majority) is not None:
            axes.axhline(trivial, color="grey", linestyle=":", label="majority class")
        axes.set_xlabel("ε" if several else "cycle")
        axes.set_ylabel(measure.replace("_", " "))
        axes.legend()
        return axes

    @staticmethod
    def _against_epsilon(axes: "Axes", runs: Sequence[Run], measure: str) -> None:
        budgets = sorted({run.epsilon for run in runs})
        found = [np.array([run.final[measure] for run in runs if run.epsilon == budget]) for budget in budgets]
        halves = [half_interval(values) if len(values) > 1 else 0.0 for values in found]
        label = runs[0].learner
        axes.errorbar(budgets, [float(values.mean()) for values in found], yerr=halves, marker="o", label=label)
        axes.set_xscale("log")
