"""Results of simulated runs as arrays, data frames or plots."""

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
    """The result of one simulated run of a fleet.

    Attributes:
        learner: the name of the learning algorithm.
        epsilon: the total ε that each device may spend; infinity for a noise-free run.
        seed: seed for the data split, the simulated network and the noise.
        cycles: the cycles at which the models were measured, int64[t].
        curves: each measure's values over time, float64[t]. For example, `accuracy_mean` is the mean over devices, on
            records that no device has.
        final: each measure's value at the end.
        majority: the accuracy of always predicting the most frequent class; None for a regression.
        privacy: the privacy statement that devices would have if the noise were real, with the field names of
            `sottovoce.PrivacyStatement`.
        wire_bytes: the total number of bytes sent by all devices.
        models: each device's model at the end, float64[devices, P].
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
    """The runs from one `simulate` call, ordered by learner, then by ε, then by seed.

    Args:
        runs: at least one run.
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = tuple(runs)

    @overload
    def __getitem__(self, index: int) -> Run: ...
    @overload
    def __getitem__(self, index: slice) -> "Runs": ...
    def __getitem__(self, index: int | slice) -> "Run | Runs":
        """Return one run, or a slice of the runs as Runs."""
        return Runs(self._runs[index]) if isinstance(index, slice) else self._runs[index]

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def frame(self) -> Any:
        """Return a pandas data frame with one row per run: learner, ε, seed, majority accuracy and final measures.

        Raises:
            UsageError: if pandas is not installed.
        """
        try:
            import pandas  # type: ignore[import-not-found,import-untyped,unused-ignore]
        except ImportError as error:
            raise UsageError("frame() requires pandas; run pip install pandas") from error
        rows = [
            {"learner": run.learner, "epsilon": run.epsilon, "seed": run.seed, "majority": run.majority, **run.final}
            for run in self
        ]
        return pandas.DataFrame(rows)

    def plot(self, axes: "Axes | None" = None, measure: str = "accuracy_mean") -> "Axes":
        """Plot a measure's mean over seeds, against ε or over cycles.

        If the runs have more than one ε, the plot is against ε, with 95 % intervals; otherwise, it is over cycles.

        Args:
            axes: matplotlib axes to plot on; None for new axes.
            measure: a key of `Run.final`.

        Returns:
            The axes with the plot.

        Raises:
            UsageError: if matplotlib is not installed, or the runs have no such measure.
        """
        try:
            from matplotlib import pyplot
        except ImportError as error:
            raise UsageError("plot() requires matplotlib; run pip install 'sottovoce[experiments]'") from error
        if any(measure not in run.final for run in self):
            raise UsageError(f"measure {measure}: unknown measure; choose one of {', '.join(self[0].final)}")
        axes = pyplot.subplots()[1] if axes is None else axes
        has_several_budgets = len({run.epsilon for run in self}) > 1
        for learner in dict.fromkeys(run.learner for run in self):
            learner_runs = [run for run in self if run.learner == learner]
            if has_several_budgets:
                self._plot_against_epsilon(axes, learner_runs, measure)
            else:
                curves = np.stack([run.curves[measure] for run in learner_runs])
                axes.plot(learner_runs[0].cycles, curves.mean(axis=0), label=learner)
        if measure.startswith("accuracy") and (majority := self[0].majority) is not None:
            axes.axhline(majority, color="grey", linestyle=":", label="majority class")
        axes.set_xlabel("ε" if has_several_budgets else "cycle")
        axes.set_ylabel(measure.replace("_", " "))
        axes.legend()
        return axes

    @staticmethod
    def _plot_against_epsilon(axes: "Axes", runs: Sequence[Run], measure: str) -> None:
        budgets = sorted({run.epsilon for run in runs})
        values_by_budget = [
            np.array([run.final[measure] for run in runs if run.epsilon == budget]) for budget in budgets
        ]
        halves = [half_interval(values) if len(values) > 1 else 0.0 for values in values_by_budget]
        label = runs[0].learner
        axes.errorbar(
            budgets, [float(values.mean()) for values in values_by_budget], yerr=halves, marker="o", label=label
        )
        axes.set_xscale("log")
