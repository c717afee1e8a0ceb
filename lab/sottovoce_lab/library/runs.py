"""Results of simulated runs as arrays, files, data frames, plots or pages."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, overload
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from sottovoce.errors import DataError, UsageError

from sottovoce_lab.experiments.saved_runs import guarantee
from sottovoce_lab.experiments.sweep import SCHEMA as SWEEP_SCHEMA
from sottovoce_lab.papers.cells import half_interval
from sottovoce_lab.testbed.baselines import compare_with_alone

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]
_SCHEMA = "sottovoce.runs/1"
_ARRAYS = ("cycles", "models")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Run:
    """The result of one simulated run of a fleet.

    Attributes:
        learner: the name of the learning algorithm.
        epsilon: the total ε that each device may spend; infinity for a noise-free run.
        seed: seed for the data split, the simulated network and the noise.
        agents: the number of devices.
        cycles: the cycles at which the models were measured, int64[t].
        curves: each measure's values over time, float64[t]. For example, `accuracy_mean` is the mean over devices, on
            records that no device has.
        final: each measure's value at the end.
        majority: the accuracy of always predicting the most frequent class; None for a regression.
        alone: what a device reaches alone, with its own records and no noise: its accuracy, or its mean absolute error;
            the mean over up to 24 devices. None if the run predicts nothing, or baselines were not wanted.
        alone_private: what a device reaches alone with the run's ε; the mean over up to 4 devices. None as for `alone`,
            and in a noise-free run.
        privacy: the privacy statement that devices would have if the noise were real, with the field names of
            `sottovoce.PrivacyStatement`.
        wire_bytes: the total number of bytes sent by all devices.
        models: each device's model at the end, float64[devices, P].
        warnings: what the reader of this run should know.
        document: the complete report, `sottovoce.report/1`.
    """

    learner: str
    epsilon: float
    seed: int
    agents: int
    cycles: NDArray[np.int64]
    curves: Mapping[str, Floats]
    final: Mapping[str, float]
    majority: float | None
    alone: float | None
    alone_private: float | None
    privacy: Mapping[str, Any]
    wire_bytes: int
    models: Floats
    warnings: tuple[str, ...] = ()
    document: Mapping[str, Any] = field(default_factory=dict)

    @property
    def measure(self) -> str:
        """The key of `final` by which runs are compared: `accuracy_mean`, `mae_mean` or `rmse_mean`."""
        return next(name for name in ("accuracy_mean", "mae_mean", "rmse_mean", "loss_mean") if name in self.final)

    @property
    def summary(self) -> str:
        """One sentence on the result, and on what a device reaches without the fleet."""
        name, budget = self.measure.removesuffix("_mean"), f"ε = {self.epsilon:g}"
        text = f"{self.learner}, {self.agents} devices, {budget}: {name} {self.final[self.measure]:.3g}"
        others = [
            *([] if self.alone is None else [f"{self.alone:.3g} for a device alone without noise"]),
            *([] if self.alone_private is None else [f"{self.alone_private:.3g} for one alone with {budget}"]),
            *([] if self.majority is None else [f"{self.majority:.3g} for the most common class"]),
        ]
        return f"{text}; {', '.join(others)}" if others else text

    def __repr__(self) -> str:
        return f"<Run {self.summary}>"


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

    def __repr__(self) -> str:
        lines = [run.summary for run in self._runs]
        return "\n".join(["<Runs", *(f"  {line}" for line in lines), *([f"  {self.summary}"] * (len(lines) > 1))]) + ">"

    @property
    def summary(self) -> str:
        """One sentence that compares the runs with devices that learn alone."""
        if not self._runs:
            return "no runs"
        measure = self._runs[0].measure
        pairs = [(run.final[measure], run.alone) for run in self if run.alone is not None and measure in run.final]
        if not pairs:
            return "; ".join(run.summary for run in self)
        results, alone = zip(*pairs, strict=True)
        return compare_with_alone(measure.removesuffix("_mean"), results, alone)

    def save(self, path: Path | str) -> None:
        """Write the runs to a file, by custom with the suffix `.npz`, which `load` reads.

        Raises:
            DataError: if the file cannot be written.
        """
        documents, arrays = [], {}
        for index, run in enumerate(self):
            values = {item.name: getattr(run, item.name) for item in fields(Run)}
            for name in _ARRAYS:
                arrays[f"{index}.{name}"] = values.pop(name)
            for name, curve in values.pop("curves").items():
                arrays[f"{index}.curves.{name}"] = curve
            documents.append({**values, "epsilon": None if math.isinf(run.epsilon) else run.epsilon})
        text = json.dumps({"schema": _SCHEMA, "runs": documents}, ensure_ascii=False)
        try:
            with Path(path).open("wb") as file:
                np.savez_compressed(file, runs=np.array(text), **arrays)
        except OSError as error:
            raise DataError(f"{path}: cannot be written ({error.strerror}); choose another file") from error

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Return the runs that `save` wrote.

        Raises:
            DataError: if the file cannot be read, or contains no runs.
        """
        try:
            with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                document = json.loads(str(arrays["runs"]))
                if document["schema"] != _SCHEMA:
                    raise KeyError("schema")
                return cls([_read_run(values, str(index), arrays) for index, values in enumerate(document["runs"])])
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror}); pass a file of Runs.save") from error
        except (ValueError, KeyError, TypeError, BadZipFile, EOFError) as error:
            raise DataError(f"{path}: this is no file of Runs.save ({error}); pass one") from error

    def report(self, path: Path | str) -> None:
        """Write one HTML page about the runs, with plots.

        Raises:
            DataError: if the file cannot be written.
            UsageError: if matplotlib is not installed.
        """
        from sottovoce_lab.pages.plots import Plotter
        from sottovoce_lab.pages.pyplot import pyplot
        from sottovoce_lab.pages.report_types import SweepReport, parse_report
        from sottovoce_lab.pages.run import run_page
        from sottovoce_lab.pages.sweep import sweep_page

        document = self[0].document if len(self) == 1 else self._sweep_document()
        report, plotter = parse_report(document, "report()"), Plotter(pyplot())
        page = sweep_page(report, plotter) if isinstance(report, SweepReport) else run_page(report, plotter)
        try:
            Path(path).write_text(page, encoding="utf-8")
        except OSError as error:
            raise DataError(f"{path}: cannot be written ({error.strerror}); choose another file") from error

    def _sweep_document(self) -> dict[str, Any]:
        """Return the runs as a document `sottovoce.sweep/1`."""
        settings = [
            {"learner": run.learner, "epsilon": run.epsilon if math.isfinite(run.epsilon) else "inf", "seed": run.seed}
            for run in self
        ]
        return {
            "schema": SWEEP_SCHEMA,
            "keys": {key: list(dict.fromkeys(values[key] for values in settings)) for key in settings[0]},
            "runs": [
                {
                    "set": values,
                    **{name: run.document[name] for name in ("final", "curve", "baselines", "warnings")},
                    "privacy": guarantee(run.document),
                }
                for run, values in zip(self, settings, strict=True)
            ],
        }

    def frame(self) -> Any:
        """Return a pandas data frame with one row per run: learner, ε, seed, devices, baselines and final measures.

        Raises:
            UsageError: if pandas is not installed.
        """
        try:
            import pandas  # type: ignore[import-not-found,import-untyped,unused-ignore]
        except ImportError as error:
            raise UsageError("frame() requires pandas; run pip install pandas") from error
        names = ("learner", "epsilon", "seed", "agents", "majority", "alone", "alone_private")
        return pandas.DataFrame([{**{name: getattr(run, name) for name in names}, **run.final} for run in self])

    def plot(self, axes: "Axes | None" = None, measure: str | None = None) -> "Axes":
        """Plot a measure's mean over seeds, against ε or over cycles, with what a device reaches alone.

        If the runs have more than one ε, the plot is against ε, with 95 % intervals; otherwise, it is over cycles.

        Args:
            axes: matplotlib axes to plot on; None for new axes.
            measure: a key of `Run.final`; None for the accuracy, or the error of predicted numbers.

        Returns:
            The axes with the plot.

        Raises:
            UsageError: if matplotlib is not installed, or the runs have no such measure.
        """
        try:
            from matplotlib import pyplot
        except ImportError as error:
            raise UsageError("plot() requires matplotlib; run pip install 'sottovoce[experiments]'") from error
        measure = self[0].measure if measure is None else measure
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
        if measure == self[0].measure:
            self._plot_baselines(axes, measure)
        axes.set_xlabel("ε" if has_several_budgets else "cycle")
        axes.set_ylabel(measure.replace("_", " "))
        axes.legend()
        return axes

    def _plot_baselines(self, axes: "Axes", measure: str) -> None:
        """Plot what a device reaches alone and what the most common class reaches, and write the comparison above."""
        alone = [run.alone for run in self if run.alone is not None]
        if alone:
            axes.axhline(float(np.mean(alone)), color="grey", linestyle="--", label="a device alone, no noise")
            axes.set_title(self.summary, fontsize="small", wrap=True)
        if measure.startswith("accuracy") and (majority := self[0].majority) is not None:
            axes.axhline(majority, color="grey", linestyle=":", label="majority class")

    @staticmethod
    def _plot_against_epsilon(axes: "Axes", runs: Sequence[Run], measure: str) -> None:
        from matplotlib.ticker import NullFormatter

        budgets = sorted({run.epsilon for run in runs})
        values_by_budget = [
            np.array([run.final[measure] for run in runs if run.epsilon == budget]) for budget in budgets
        ]
        halves = [half_interval(values) if len(values) > 1 else 0.0 for values in values_by_budget]
        label, finite = runs[0].learner, [budget for budget in budgets if math.isfinite(budget)]
        positions = [budget if math.isfinite(budget) else 4 * max(finite, default=1.0) for budget in budgets]
        axes.errorbar(
            positions, [float(values.mean()) for values in values_by_budget], yerr=halves, marker="o", label=label
        )
        axes.set_xscale("log")
        # A label at each budget, and none between them; of budgets that lie close together, only the first has one.
        labelled = [p for i, p in enumerate(positions) if i == 0 or p >= _LABEL_RATIO * positions[i - 1]]
        names = ["∞" if math.isinf(budgets[positions.index(p)]) else f"{p:g}" for p in labelled]
        axes.set_xticks(labelled, names)
        axes.xaxis.set_minor_formatter(NullFormatter())


_LABEL_RATIO = 1.15  # smallest ratio of neighbouring budgets at which their labels do not overlap on a page-wide plot


def _read_run(values: dict[str, Any], index: str, arrays: Mapping[str, NDArray[Any]]) -> Run:
    prefix = f"{index}.curves."
    return Run(
        **{
            **values,
            "epsilon": math.inf if values["epsilon"] is None else values["epsilon"],
            "warnings": tuple(values["warnings"]),
            "curves": {name.removeprefix(prefix): arrays[name] for name in arrays if name.startswith(prefix)},
            **{name: arrays[f"{index}.{name}"] for name in _ARRAYS},
        }
    )
