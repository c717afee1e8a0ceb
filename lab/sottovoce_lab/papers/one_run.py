"""Execute one experiment run in this process: agents on a virtual clock, arrays, or a walk over perturbed records.

Seven keys extend those of an ordinary run. `engine` may also be `arrays`. `prepare` fits a transform to all training
records, as in the papers, without charging any ε for it. `updates` is the length of a walk. `solver` is the method
that separates two-dimensional records. `points` is the number of points on a curve. `test_records` limits the size of
the test set. `gradient_norm = true` adds a measurement of the gradient norm.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sottovoce.data import DataSet, load

from sottovoce_lab.experiments.fleet import Fleet, assemble
from sottovoce_lab.experiments.fleet_meter import Meter
from sottovoce_lab.experiments.gradient_walk import create_walks
from sottovoce_lab.experiments.run import run_fleet
from sottovoce_lab.experiments.saved_runs import Outcome
from sottovoce_lab.experiments.seeds import Stream, generator
from sottovoce_lab.experiments.sequential import create_descent
from sottovoce_lab.experiments.settings import Settings, build_settings
from sottovoce_lab.experiments.statement import build_statement
from sottovoce_lab.papers.gradient_norm import GradientMeter
from sottovoce_lab.papers.plane import separating_weights
from sottovoce_lab.papers.prepare import prepare_data
from sottovoce_lab.simulator.vector import GradientWalk, SequentialDescent
from sottovoce_lab.testbed import memory
from sottovoce_lab.testbed.measure import majority_accuracy
from sottovoce_lab.testbed.plan import plan
from sottovoce_lab.testbed.progress import Watcher
from sottovoce_lab.testbed.run_spec import build_run_spec

ARRAYS = "arrays"
"""Name of the engine for fleets with one record per device, which are stored in a few arrays."""

_SYNTHETIC = ("synthetic", "two-gaussians")
_WALKS = ("gradient-walk", "sequential-sgd")
_MAX_MARKS = 40
_GUARANTEE = ("epsilon", "delta", "status", "neighbouring", "unit", "reason")
_FIRST_MODEL = np.zeros(1, dtype=np.int64)


def run_one(keys: Mapping[str, Any]) -> Outcome:
    """Execute one run, and return its outcome."""
    run_keys = dict(keys)
    prepare, updates, solver = run_keys.pop("prepare", ""), run_keys.pop("updates", None), run_keys.pop("solver", "")
    if run_keys.get("engine") == ARRAYS:
        del run_keys["engine"]
        return _run_on_arrays(build_settings(run_keys, "experiment"), updates, solver)
    gradient_norm, points = run_keys.pop("gradient_norm", False), run_keys.pop("points", _MAX_MARKS)
    max_test_records = run_keys.pop("test_records", None)
    spec = build_run_spec(run_keys, "experiment")
    data = _data(spec.data, prepare)
    if max_test_records and data.test is not None:
        data = replace(data, test=data.test.at(np.arange(min(max_test_records, len(data.test)))))
    planned = plan(spec.options(), data)
    meter = GradientMeter(planned) if gradient_norm else None
    report = memory.run(planned, Watcher(), meter=meter, points=points)
    report.baselines = lambda: None  # computing them, except the majority class, takes longer than the run
    return _extract_outcome(report.document(), majority_accuracy(planned.test) if planned.classes > 1 else None)


@lru_cache(maxsize=1)
def _data(source: str, prepare: str) -> DataSet:
    """Load and prepare a data set, and cache it, because consecutive runs in a process often share one."""
    data = load(source)
    return prepare_data(data, prepare) if prepare else data


def _run_on_arrays(options: Settings, updates: int | None, solver: str) -> Outcome:
    source = options.data.source
    fleet = assemble(options, None if source in _SYNTHETIC else _data(source, ""))
    if solver:
        weights = separating_weights(fleet, solver)
        return _measure_model(fleet, weights[np.newaxis, np.newaxis], [])
    if options.learner.name in _WALKS:
        return _run_walk(fleet, updates)
    return _extract_outcome(run_fleet(fleet, Watcher())[0], majority_accuracy(fleet.test))


def _run_walk(fleet: Fleet, updates: int | None) -> Outcome:
    """Measure a walk at about 40 geometrically spaced numbers of updates."""
    walk: GradientWalk | SequentialDescent
    if fleet.settings.learner.name == "gradient-walk":
        walk = create_walks(fleet, [fleet.settings.epsilon])
        max_updates = min(walk.length, updates or walk.length)
    else:
        walk = create_descent(fleet)
        max_updates = updates or walk.length
    marks = set(np.unique(np.geomspace(1, max_updates, _MAX_MARKS).astype(np.int64)).tolist())
    meter = _meter(fleet)
    curve = []
    for count in walk.updates():
        if count in marks:
            measures = meter.measure_sample(walk.weights, _FIRST_MODEL)
            curve.append([count, {"accuracy_mean": measures.accuracy_mean, "loss_mean": measures.loss_mean}])
        if count == max_updates:
            break
    return _measure_model(fleet, walk.weights, curve)


def _measure_model(fleet: Fleet, weights: NDArray[np.float64], curve: list[Any]) -> Outcome:
    """Return the outcome of a single model with weights float64[1,copies,d]."""
    final, statement = _meter(fleet).measure_all(weights, _FIRST_MODEL), build_statement(fleet)
    return {
        "final": {"accuracy_mean": final.accuracy_mean, "loss_mean": final.loss_mean},
        "curve": curve,
        "majority": majority_accuracy(fleet.test),
        "privacy": {name: statement.as_dict()[name] for name in _GUARANTEE},
    }


def _meter(fleet: Fleet) -> Meter:
    return Meter(fleet, generator(fleet.settings.seed, Stream.MEASURING))


def _extract_outcome(report: Mapping[str, Any], majority_accuracy: float | None) -> Outcome:
    if "interrupted_at" in report["run"]:
        raise KeyboardInterrupt  # an interrupted run has no result
    names = [name for name, value in report["final"].items() if isinstance(value, int | float)]
    return {
        "final": {name: report["final"][name] for name in names},
        "curve": [
            [point["cycle"], {name: point[name] for name in names if name in point}] for point in report["curve"]
        ],
        "majority": majority_accuracy,
        "privacy": {name: report["privacy"][name] for name in _GUARANTEE},
    }
