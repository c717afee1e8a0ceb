"""Figure 2: two Gaussian classes in the plane, and where a standard SVM and gossip learning part them."""

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sottovoce.errors import UsageError
from sottovoce.kernels.gossip_rules import RULES

from sottovoce_lab.experiments.figures.specification import Extent, FigureSpec
from sottovoce_lab.experiments.figures.sweep import Cell, Cells, Place
from sottovoce_lab.experiments.fleet import Fleet, assembled
from sottovoce_lab.experiments.measuring import Meter
from sottovoce_lab.experiments.seeds import Stream, child, generator
from sottovoce_lab.experiments.settings import settings
from sottovoce_lab.pages.pyplot import pyplot
from sottovoce_lab.simulate.vector import Engine, TravellingModels

_MOST_POINTS = 500

Weights = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Panel:
    """One ε of the figure: the perturbed records q of the first run, and each solver's w, both float64[…, 2]."""

    epsilon: float
    records: Weights
    lines: dict[str, Weights]


def separate(spec: FigureSpec, extent: Extent) -> tuple[Cells, list[Panel]]:
    """Run both solvers on the same perturbed records.

    Raises:
        UsageError: scikit-learn is not installed.
    """
    solve = _standard_solver()
    cells: Cells = {}
    panels = []
    (name,) = spec.data
    for epsilon in extent.epsilon:
        for seed in range(extent.runs):
            values = {**extent.set, **spec.data[name], "epsilon": epsilon, "seed": seed, "privacy.allow_unproved": True}
            fleet = assembled(settings(values, name))
            records = fleet.signed()
            lines = {"golf": _gossip(fleet, records), "svm": solve(records[:, 0].astype(np.float64))}
            meter = Meter(fleet, generator(seed, Stream.MEASURING))
            for series, weights in lines.items():
                final = meter.final(weights[np.newaxis, np.newaxis], np.zeros(1, dtype=np.int64))
                cells.setdefault(Place(name, series, epsilon, 0), Cell()).accuracies.append(final.accuracy_mean)
            if seed == 0:
                panels.append(Panel(epsilon, records[:, 0].astype(np.float64), lines))
    return cells, panels


def draw(spec: FigureSpec, panels: list[Panel], path: Path) -> None:
    """Draw the perturbed records, and each solver's line w'x = 0.

    Raises:
        UsageError: matplotlib is not installed.
    """
    plt = pyplot()
    figure, axes = plt.subplots(1, len(panels), figsize=(3.2 * len(panels), 3.4), squeeze=False, layout="constrained")
    for panel, axis in zip(panels, axes[0], strict=True):
        points = panel.records[:_MOST_POINTS]
        axis.set_title("no noise" if panel.epsilon == float("inf") else f"ε = {panel.epsilon:g}")
        axis.scatter(points[:, 0], points[:, 1], s=3, color="0.6", label="records yx + noise")
        for style, (series, weights) in zip(("-", "--"), panel.lines.items(), strict=True):
            along = np.array([-weights[1], weights[0]]) / np.linalg.norm(weights) * np.abs(points).max()
            axis.plot([-along[0], along[0]], [-along[1], along[1]], style, label=spec.series[series].label)
        axis.set_aspect("equal", "datalim")
    axes[0][0].legend(fontsize="x-small")
    figure.suptitle(spec.title)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _gossip(fleet: Fleet, records: NDArray[np.float32]) -> Weights:
    """The mean of all devices' models, float64[2]."""
    state = TravellingModels(records, RULES[fleet.model])
    engine = Engine(state, seed=child(fleet.settings.seed, Stream.ENGINE))
    for _ in range(fleet.settings.cycles):
        engine.step()
    weights: Weights = state.weights.astype(np.float64).mean(axis=0)[0]
    return weights


def _standard_solver() -> Any:
    """A linear SVM through the origin, by liblinear, on records q float64[n,2], each once as +q and once as -q."""
    try:
        linear_svc = importlib.import_module("sklearn.svm").LinearSVC
    except ImportError as error:
        raise UsageError(
            "the standard SVM is scikit-learn's, which is not installed: run pip install 'sottovoce[experiments]'"
        ) from error

    def solve(records: Weights) -> Weights:
        both = np.concatenate([records, -records])
        sides = np.repeat([1, -1], len(records))
        solver = linear_svc(loss="hinge", fit_intercept=False, C=1.0, max_iter=100_000, random_state=0)
        weights: Weights = solver.fit(both, sides).coef_[0]
        return weights

    return solve
