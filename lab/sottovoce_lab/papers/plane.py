"""Two-dimensional records in two classes, separated by two solvers: gossip learning and a standard SVM."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sottovoce.errors import UsageError
from sottovoce.kernels.gossip_rules import UPDATE_RULES
from sottovoce.kernels.linear import targets

from sottovoce_lab.experiments.fleet import Fleet, assemble
from sottovoce_lab.experiments.seeds import Stream, derive_seed
from sottovoce_lab.experiments.settings import build_settings
from sottovoce_lab.pages.pyplot import pyplot
from sottovoce_lab.papers.specification import Experiment
from sottovoce_lab.simulator.vector import Engine, TravellingModels

_MAX_POINTS = 500

Weights = NDArray[np.float64]


def separating_weights(fleet: Fleet, solver: str) -> Weights:
    """Return the weights w, float64[2], that a solver finds for a fleet's perturbed records.

    Args:
        fleet: a fleet whose records have two features and two classes.
        solver: `gossip` for the mean of all devices' models; `svm` for a linear SVM without an intercept, by liblinear.

    Raises:
        UsageError: if scikit-learn is not installed.
    """
    records = fleet.perturbed_records()
    return _gossip(fleet, records) if solver == "gossip" else _svm(records[:, 0].astype(np.float64))


def draw(spec: Experiment, runs: Mapping[Any, Mapping[str, Any]], path: Path) -> None:
    """Draw the first seed's perturbed records x by class, and each solver's line w'x = 0, with one panel per ε.

    Raises:
        UsageError: if matplotlib or scikit-learn is not installed.
    """
    plt = pyplot()
    first_seed_runs = {position: dict(keys) for position, keys in runs.items() if position.seed == 0}
    xs = list(dict.fromkeys(position.x for position in first_seed_runs))
    figure, axes = plt.subplots(1, len(xs), figsize=(1.75 * len(xs), 2.6), squeeze=False, layout="constrained")
    for x, axis in zip(xs, axes[0], strict=True):
        panel_keys = {position.series: keys for position, keys in first_seed_runs.items() if position.x == x}
        fleets = {series: _fleet(keys) for series, keys in panel_keys.items()}
        fleet = next(iter(fleets.values()))[0]  # all fleets have the same seed and therefore the same records
        signs = targets(fleet.records.labels, 2)
        points, sides = (fleet.perturbed_records()[:, 0] * signs)[:_MAX_POINTS], signs[:_MAX_POINTS, 0]
        for side, marker, colour in ((1, "o", "0.45"), (-1, "x", "0.65")):
            axis.scatter(
                *points[sides == side].T, s=4, lw=0.6, marker=marker, color=colour, label=f"records of class {side:+d}"
            )
        for number, (series, (solver_fleet, solver)) in enumerate(fleets.items()):
            weights = separating_weights(solver_fleet, solver)
            endpoint = np.array([-weights[1], weights[0]]) / np.linalg.norm(weights) * np.abs(points).max()
            axis.plot(
                [-endpoint[0], endpoint[0]], [-endpoint[1], endpoint[1]], "-:"[number], label=spec.series[series].label
            )
        axis.set_title("no noise" if x == float("inf") else f"ε = {x:g}", fontsize=8)
        axis.set_aspect("equal", "datalim")
        axis.tick_params(labelsize=6)
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=7)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _fleet(keys: dict[str, Any]) -> tuple[Fleet, str]:
    """Return a run's fleet and solver."""
    fleet_keys = {key: value for key, value in keys.items() if key not in ("solver", "engine")}
    return assemble(build_settings(fleet_keys, "experiment")), keys["solver"]


def _gossip(fleet: Fleet, records: NDArray[np.float32]) -> Weights:
    state = TravellingModels(records, UPDATE_RULES[fleet.model])
    engine = Engine(state, seed=derive_seed(fleet.settings.seed, Stream.ENGINE))
    for _ in range(fleet.settings.cycles):
        engine.step()
    weights: Weights = state.weights.astype(np.float64).mean(axis=0)[0]
    return weights


def _svm(records: Weights) -> Weights:
    """Fit a linear SVM to records q, float64[n, 2], each used as +q and as -q, and return its weights."""
    try:
        linear_svc = importlib.import_module("sklearn.svm").LinearSVC
    except ImportError as error:
        raise UsageError(
            "the standard SVM needs scikit-learn, which is not installed: run pip install 'sottovoce[experiments]'"
        ) from error
    points, sides = np.concatenate([records, -records]), np.repeat([1, -1], len(records))
    solver = linear_svc(loss="hinge", fit_intercept=False, C=1.0, max_iter=100_000, random_state=0)
    weights: Weights = solver.fit(points, sides).coef_[0]
    return weights
