"""Execute one experiment run in this process: agents on a virtual clock, arrays, turns, or a walk over records.

Seven keys extend those of an ordinary run. `engine` may also be `arrays` or `turns`. `prepare` fits a transform to all
training records, as in the papers, without charging any ε for it. `updates` is the length of a walk. `solver` is the
method that separates two-dimensional records. `points` is the number of points on a curve. `test_records` limits the
size of the test set. `gradient_norm = true` adds a measurement of the gradient norm.
"""

from collections.abc import Mapping, Sequence
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
from sottovoce_lab.experiments.settings import build_settings
from sottovoce_lab.experiments.statement import build_statement
from sottovoce_lab.papers.gradient_norm import GradientMeter
from sottovoce_lab.papers.plane import separating_weights
from sottovoce_lab.papers.prepare import prepare_data
from sottovoce_lab.papers.turns import take_turns
from sottovoce_lab.simulator.vector import GradientWalk, SequentialDescent
from sottovoce_lab.testbed import memory
from sottovoce_lab.testbed.measure import Meter as TestMeter, majority_accuracy
from sottovoce_lab.testbed.plan import Plan, plan
from sottovoce_lab.testbed.progress import Watcher
from sottovoce_lab.testbed.run_spec import build_run_spec

ARRAYS = "arrays"
"""Name of the engine for fleets with one record per device, which are stored in a few arrays."""
GRADIENT_WALK = "gradient-walk"
"""Name of the learner whose walks with different ε can run in parallel."""
TURNS = "turns"
"""Name of the engine for a shared model's chains, whose turns are taken one after another."""

_SYNTHETIC = ("synthetic", "two-gaussians")
_OWN_KEYS = ("engine", "prepare", "updates", "solver")
_MAX_MARKS = 40
_GUARANTEE = ("epsilon", "delta", "status", "neighbouring", "unit", "reason")
_FIRST_MODEL = np.zeros(1, dtype=np.int64)


def run_one(keys: Mapping[str, Any]) -> Outcome:
    """Execute one run, and return its outcome."""
    if keys.get("engine") == ARRAYS:
        return run_on_arrays([keys])[0]
    run_keys = dict(keys)
    prepare, engine = run_keys.pop("prepare", ""), run_keys.pop("engine", "events")
    gradient_norm, points = run_keys.pop("gradient_norm", False), run_keys.pop("points", _MAX_MARKS)
    max_test_records = run_keys.pop("test_records", None)
    spec = build_run_spec(run_keys, "experiment")
    data = _data(spec.data, prepare)
    if max_test_records and data.test is not None:
        data = replace(data, test=data.test.at(np.arange(min(max_test_records, len(data.test)))))
    planned = plan(spec.options(), data)
    if engine == TURNS:
        return _run_turns(planned)
    meter = GradientMeter(planned) if gradient_norm else None
    report = memory.run(planned, Watcher(), meter=meter, points=points)
    report.baselines = lambda: None  # computing them, except the majority class, takes longer than the run
    return _extract_outcome(report.document(), majority_accuracy(planned.test) if planned.classes > 1 else None)


def _run_turns(planned: Plan) -> Outcome:
    model, statement = take_turns(planned)
    final = TestMeter(planned.family.model, planned.test, planned.options.seed).measure_all([model])
    return {
        "final": {"accuracy_mean": final.accuracy_mean, "loss_mean": final.loss_mean},
        "curve": [],
        "majority": majority_accuracy(planned.test),
        "privacy": {name: statement.as_dict()[name] for name in _GUARANTEE},
    }


@lru_cache(maxsize=1)
def _data(source: str, prepare: str) -> DataSet:
    """Load and prepare a data set, and cache it, because consecutive runs in a process often share one."""
    data = load(source)
    return prepare_data(data, prepare) if prepare else data


def run_on_arrays(batch: Sequence[Mapping[str, Any]]) -> list[Outcome]:
    """Execute one run on arrays, or several gradient walks that differ only in ε, and return their outcomes."""
    updates, solver = batch[0].get("updates"), batch[0].get("solver", "")
    fleets = [_assemble({name: value for name, value in keys.items() if name not in _OWN_KEYS}) for keys in batch]
    name = fleets[0].settings.learner.name
    if name == GRADIENT_WALK:
        walks = create_walks(fleets[0], [fleet.settings.epsilon for fleet in fleets])
        return _run_walks(fleets, walks, min(walks.length, updates or walks.length))
    (fleet,) = fleets
    if solver:
        weights = separating_weights(fleet, solver)
        return [_measure_model(fleet, weights[np.newaxis, np.newaxis], [])]
    if name == "sequential-sgd":
        descent = create_descent(fleet)
        return _run_walks(fleets, descent, updates or descent.length)
    return [_extract_outcome(run_fleet(fleet, Watcher())[0], majority_accuracy(fleet.test))]


def _assemble(keys: Mapping[str, Any]) -> Fleet:
    settings = build_settings(keys, "experiment")
    source = settings.data.source
    return assemble(settings, None if source in _SYNTHETIC else _data(source, ""))


def _run_walks(fleets: list[Fleet], walks: GradientWalk | SequentialDescent, max_updates: int) -> list[Outcome]:
    """Measure each fleet's walk at about 40 geometrically spaced numbers of updates."""
    marks = set(np.unique(np.geomspace(1, max_updates, _MAX_MARKS).astype(np.int64)).tolist())
    meters: list[Meter] = [_meter(fleet) for fleet in fleets]
    curves: list[list[Any]] = [[] for _ in fleets]
    for count in walks.updates():
        if count in marks:
            for weights, meter, curve in zip(walks.weights, meters, curves, strict=True):
                measures = meter.measure_sample(weights[np.newaxis], _FIRST_MODEL)
                curve.append([count, {"accuracy_mean": measures.accuracy_mean, "loss_mean": measures.loss_mean}])
        if count == max_updates:
            break
    return [
        _measure_model(fleet, weights[np.newaxis], curve)
        for fleet, weights, curve in zip(fleets, walks.weights, curves, strict=True)
    ]


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
