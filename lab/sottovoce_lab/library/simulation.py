"""Functions that simulate fleets from Python."""

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sottovoce.data import DataSet, Table, load
from sottovoce.data.bounds import Bounds, check_bounds
from sottovoce.errors import UsageError
from sottovoce.learning.registry import DEFAULT

from sottovoce_lab.library.runs import Floats, Run, Runs
from sottovoce_lab.testbed import memory
from sottovoce_lab.testbed.mean_errors import AnyMeter, create_meter
from sottovoce_lab.testbed.measure import majority_accuracy
from sottovoce_lab.testbed.plan import Plan, plan, read_declaration
from sottovoce_lab.testbed.progress import Watcher
from sottovoce_lab.testbed.run_facts import plan_notes
from sottovoce_lab.testbed.run_spec import build_run_spec

Data = str | DataSet | tuple[ArrayLike, ArrayLike]
"""A data SPEC, a loaded data set, or a pair of features, float[n, d], and labels, int[n]."""

ARRAYS = "arrays"
"""Data set name, in reports, for arrays that the caller provides."""


class DataWarning(UserWarning):
    """Warns that the data do not fit what was declared about them."""


class _RecordingMeter:
    """A meter that also stores the final models.

    Args:
        meter: the wrapped meter, which measures the models.
    """

    def __init__(self, meter: AnyMeter) -> None:
        self._meter = meter
        self.models: Sequence[Floats] = ()

    def measure_sample(self, models: Sequence[Floats]) -> Any:
        """Measure models for the learning curve."""
        return self._meter.measure_sample(models)

    def measure_all(self, models: Sequence[Floats]) -> Any:
        """Measure models at the end of the run, and store them."""
        self.models = models
        return self._meter.measure_all(models)


def simulate(
    data: Data,
    *,
    learner: str | Sequence[str] = DEFAULT,
    agents: int = 12,
    epsilon: float | Sequence[float] = 2.0,
    delta: float = 1e-5,
    cycles: int | None = None,
    seed: int | Iterable[int] = 0,
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
    classes: int | None = None,
    test: tuple[ArrayLike, ArrayLike] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Runs:
    """Simulate fleets that run the agents' own code on a virtual clock.

    The noise is generated from a seed and therefore provides no privacy.

    Args:
        data: a data SPEC such as `digits`, a data set, or a pair of features, float[n, d], and labels, int[n].
        learner: one or more names of learning algorithms; see `sottovoce testbed --help`.
        agents: number of devices among which the records are divided.
        epsilon: each device's total ε, as one or more values; infinity for no noise.
        delta: each device's total δ.
        cycles: number of cycles per device; by default 60, or as many as the learner's steps need.
        seed: one or more seeds, each for the data split, the network and the noise of a run.
        bounds: for arrays, the publicly known lowest and highest feature values, each a single number or one number per
            feature. Without it, a DataWarning says what that means.
        classes: for arrays, the publicly known number of classes. If it is None and the settings have no `data.labels`,
            the classes are read off the labels, and the privacy statement says that nothing is proved.
        test: for arrays, test features and labels, which no device has; by default a fifth of the data.
        settings: further configuration keys, such as `{"learner.steps": 50, "data.partition": "dirichlet(0.25)"}`.

    Returns:
        One run for each combination of learner, ε and seed.

    Raises:
        SottovoceError: if a setting is invalid; the message names its key.
    """
    dataset = data_set(data, bounds, test, classes=classes, settings=settings or {})
    learners = [learner] if isinstance(learner, str) else list(learner)
    budgets = [float(epsilon)] if isinstance(epsilon, int | float) else [float(value) for value in epsilon]
    seeds = [seed] if isinstance(seed, int) else list(seed)
    if not (learners and budgets and seeds):
        raise UsageError("simulate: specify at least one learner, one ε and one seed")
    runs: list[Run] = []
    for name, budget, run_seed in product(learners, budgets, seeds):
        keys = {
            "learner": name,
            "agents": agents,
            "epsilon": budget,
            "delta": delta,
            **({} if cycles is None else {"cycles": cycles}),
            "seed": run_seed,
            "data": data if isinstance(data, str) else ARRAYS,
            **(settings or {}),
        }
        planned = plan(build_run_spec(keys, "simulate").options(), dataset)
        if not runs:
            warn_about_data(planned)
        runs.append(simulate_plan(planned))
    return Runs(runs)


def warn_about_data(planned: Plan) -> None:
    """Issue a DataWarning for each note about the plan's data."""
    for problem, remedy in plan_notes(planned):
        warnings.warn(f"{problem}: {remedy}", DataWarning, stacklevel=3)


def simulate_plan(planned: Plan) -> Run:
    """Simulate a plan and return the resulting run."""
    meter = _RecordingMeter(create_meter(planned))
    report = memory.run(planned, Watcher(), meter=cast(AnyMeter, meter))
    report.baselines = lambda: None  # computing the baselines, except the majority class, takes longer than the run
    document, options = report.document(), planned.options
    names = [name for name, value in document["final"].items() if isinstance(value, int | float)]
    curve = document["curve"]
    curve_names = [name for name in names if all(name in point for point in curve)]
    return Run(
        learner=options.learner,
        epsilon=math.inf if options.epsilon is None else options.epsilon,
        seed=options.seed,
        cycles=np.array([point["cycle"] for point in curve], dtype=np.int64),
        curves={name: np.array([point[name] for point in curve], dtype=np.float64) for name in curve_names},
        final={name: float(document["final"][name]) for name in names},
        majority=majority_accuracy(planned.test) if planned.classes > 1 else None,
        privacy=document["privacy"],
        wire_bytes=int(document["traffic"]["wire_bytes"]),
        models=np.stack(meter.models) if meter.models else np.empty((0, planned.family.model.size)),
    )


def data_set(
    data: Data,
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
    test: tuple[ArrayLike, ArrayLike] | None = None,
    *,
    classes: int | None = None,
    settings: Mapping[str, Any],
) -> DataSet:
    """Convert the data passed to `simulate` into a data set.

    Raises:
        DataError: if labels are not 0 … classes-1, or the arrays do not match.
        UsageError: if features are not two-dimensional, or bounds, classes or test are passed with a data set that has
            its own.
    """
    if isinstance(data, str | DataSet):
        if any(argument is not None for argument in (bounds, classes, test)):
            raise UsageError("bounds, classes and test apply only to arrays, since a data set has its own; omit them")
        return load(data, read_declaration(settings)) if isinstance(data, str) else data
    features, labels = (np.asarray(part) for part in data)
    if features.ndim != 2:
        raise UsageError(f"features of shape {features.shape}: pass float[n, d], with one row per record")
    test_arrays = None if test is None else (np.asarray(test[0]), np.asarray(test[1]))
    table = Table(
        name=ARRAYS,
        rows=(features, labels),
        test=test_arrays,
        classes=classes,
        bounds=None if bounds is None else declared_bounds(bounds, features.shape[1]),
        origin="data",
    )
    return table.dataset(read_declaration(settings))


def declared_bounds(bounds: tuple[ArrayLike, ArrayLike], features: int) -> Bounds:
    """Return the declared range of each feature, float64[d] twice.

    Raises:
        DataError: if a bound is not finite, or a lower bound exceeds its upper bound.
        UsageError: if a bound is neither one number nor one for each feature.
    """
    low, high = (_broadcast(bound, features) for bound in bounds)
    return check_bounds(low, high, features, "bounds")


def _broadcast(bound: ArrayLike, features: int) -> NDArray[np.float64]:
    """Broadcast a bound to all features, float64[d]."""
    try:
        return np.broadcast_to(np.asarray(bound, dtype=np.float64), (features,)).copy()
    except ValueError as error:
        raise UsageError(f"bounds: specify a number, or one for each of the {features} features") from error
