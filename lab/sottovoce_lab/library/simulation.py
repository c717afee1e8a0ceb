"""Functions that simulate fleets from Python."""

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from numbers import Integral, Real
from typing import Any, cast

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike
from sottovoce.data import DataSet, Table, load
from sottovoce.errors import UsageError
from sottovoce.learning.registry import DEFAULT
from sottovoce.suggestions import explain_arguments
from typing_extensions import override

from sottovoce_lab.library.arrays import ARRAYS, Groups, array_table, join_parts, number_groups, regression_data
from sottovoce_lab.library.runs import Floats, Run, Runs
from sottovoce_lab.library.wording import SIMULATE, in_arguments, speaks_python
from sottovoce_lab.testbed import memory
from sottovoce_lab.testbed.baselines import Baselines
from sottovoce_lab.testbed.mean_errors import AnyMeter, create_meter
from sottovoce_lab.testbed.measure import PredictionErrors, majority_accuracy
from sottovoce_lab.testbed.options import Options
from sottovoce_lab.testbed.plan import Plan, plan, read_declaration
from sottovoce_lab.testbed.progress import Moment, Watcher
from sottovoce_lab.testbed.run_facts import plan_baselines, plan_notes
from sottovoce_lab.testbed.run_spec import build_run_spec

Pair = tuple[ArrayLike, ArrayLike]
Data = str | DataSet | Pair | Sequence[Pair]
"""A data SPEC, a loaded data set, a pair of features, float[n, d], and labels, int[n], or such a pair per device."""
_AGENTS = 12
_DEVICES_ALONE = 4  # how many devices per run are simulated alone


class DataWarning(UserWarning):
    """Warns that the data do not fit what was declared about them."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A fleet's state at one of its cycles, as a callback receives it.

    Attributes:
        learner: the name of the learning algorithm.
        epsilon: the total ε that each device may spend; infinity for a noise-free run.
        seed: the run's seed.
        cycle: the cycle that has ended.
        cycles: the number of cycles in the run.
        measures: each measure's value; see `Run.final`.
    """

    learner: str
    epsilon: float
    seed: int
    cycle: int
    cycles: int
    measures: Mapping[str, float]


class _CallbackWatcher(Watcher):
    def __init__(self, options: Options, callback: Callable[[Progress], object]) -> None:
        self._options, self._callback = options, callback

    @override
    def show_moment(self, moment: Moment) -> None:
        values = asdict(moment.measures)
        numbers = {name: float(value) for name, value in values.items() if isinstance(value, int | float)}
        epsilon, seed = _epsilon(self._options), self._options.seed
        self._callback(Progress(self._options.learner, epsilon, seed, moment.cycle, moment.cycles, numbers))


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


@speaks_python(SIMULATE)
@explain_arguments(
    {
        "n_agents": "agents",
        "num_agents": "agents",
        "num_clients": "agents",
        "num_supernodes": "agents",
        "num_nodes": "agents",
        "n_clients": "agents",
        "rounds": "cycles",
        "num_rounds": "cycles",
        "n_rounds": "cycles",
        "epochs": "cycles",
        "strategy": "learner",
        "algorithm": "learner",
        "random_state": "seed",
        "eps": "epsilon",
        "target_epsilon": "epsilon",
        "target_delta": "delta",
        "client_fn": "data",
        "num_workers": "n_jobs",
        "progress": "callback",
    }
)
def simulate(
    data: Data,
    labels: ArrayLike | None = None,
    *,
    learner: str | Sequence[str] = DEFAULT,
    agents: int | None = None,
    epsilon: float | Iterable[float] = 2.0,
    delta: float = 1e-5,
    cycles: int | None = None,
    seed: int | Iterable[int] = 0,
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
    classes: int | None = None,
    target: tuple[float, float] | None = None,
    test: Pair | None = None,
    groups: ArrayLike | None = None,
    topology: str | None = None,
    faults: str | Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
    baselines: bool = True,
    n_jobs: int | None = 1,
    callback: Callable[[Progress], object] | None = None,
) -> Runs:
    """Simulate fleets that run the agents' own code on a virtual clock.

    The noise is generated from a seed and therefore provides no privacy.

    Args:
        data: a data SPEC such as `digits`, a data set, a pair of features, float[n, d], and labels, int[n], or a list
            with one such pair per device. A fifth of the records is held out for testing, unless `test` is set.
        labels: the labels, if `data` is an array of features.
        learner: one or more names of learning algorithms; see `sottovoce testbed --help`.
        agents: number of devices among which the records are divided; by default 12, or one per pair or group.
        epsilon: each device's total ε, as one or more values; infinity for no noise.
        delta: each device's total δ.
        cycles: number of cycles per device; by default 60, or as many as the learner's steps need.
        seed: one or more seeds, each for the data split, the network and the noise of a run.
        bounds: for arrays, the publicly known lowest and highest feature values, each a single number or one number per
            feature. Without it, a DataWarning says what that means.
        classes: for arrays, the publicly known number of classes. If it is None and the settings have no `data.labels`,
            the classes are read off the labels, and the privacy statement says that nothing is proved.
        target: for arrays, the publicly known lowest and highest value of a number to predict; the labels are then
            these numbers, float[n], and `bounds` is required.
        test: for arrays, test features and labels, which no device has; by default a fifth of the data.
        groups: for one pair of arrays, the group of each record, such as its household, [n]; a group's records go to
            the same device.
        topology: which device sends to which, such as `ring` or `full`; by default the learner's.
        faults: one or more fault specifications, such as `loss=0.1`; see docs/reference/faults.md.
        settings: further configuration keys, such as `{"learner.steps": 50, "data.partition": "dirichlet(0.25)"}`.
        baselines: whether to compute `Run.alone` and `Run.alone_private`, which can double the duration.
        n_jobs: number of processes that execute runs, as in scikit-learn: -1 for one per processor.
        callback: function that receives a Progress after each measured cycle; only with one process.

    Returns:
        One run for each combination of learner, ε and seed.

    Raises:
        SottovoceError: if a setting is invalid; the message names its key.
    """
    learners = [learner] if isinstance(learner, str) else list(learner)
    budgets = [float(value) for value in _listed("epsilon", epsilon, Real)]
    seeds = [int(value) for value in _listed("seed", seed, Integral)]
    if not (learners and budgets and seeds):
        raise UsageError("simulate: specify at least one learner, one ε and one seed")
    if callback is not None and n_jobs not in (None, 1):
        raise UsageError(f"n_jobs={n_jobs}: a callback works in one process only; use n_jobs=1, or omit callback")
    dataset, split = _dataset(data, labels, bounds, test, groups, classes, target, agents, settings or {})
    devices = (_AGENTS if split is None else split.count) if agents is None else agents
    plans: list[Plan] = []
    for name, budget, run_seed in product(learners, budgets, seeds):
        keys = {
            "learner": name,
            "agents": devices,
            "epsilon": budget,
            "delta": delta,
            **({} if cycles is None else {"cycles": cycles}),
            "seed": run_seed,
            "data": data if isinstance(data, str) else ARRAYS,
            **({} if topology is None else {"topology": topology}),
            **({} if not faults else {"faults": [faults] if isinstance(faults, str) else list(faults)}),
            **({} if split is None else {"data.partition": split.partition_for(devices)}),
            **(settings or {}),
        }
        plans.append(plan(build_run_spec(keys, "simulate").options(), dataset))
    warn_about_data(plans[0], SIMULATE)
    alike = {_baseline_key(planned): planned for planned in plans} if baselines else {}
    parallel = Parallel(n_jobs=n_jobs)
    own = dict(zip(alike, parallel(delayed(plan_baselines)(planned) for planned in alike.values()), strict=True))
    watchers = [Watcher() if callback is None else _CallbackWatcher(planned.options, callback) for planned in plans]
    return Runs(
        list(
            parallel(
                delayed(_run_with_baselines)(planned, watcher, own.get(_baseline_key(planned)), baselines)
                for planned, watcher in zip(plans, watchers, strict=True)
            )
        )
    )


def _listed(name: str, values: Any, kind: type) -> list[Any]:
    """Return one or more numbers as a list."""
    listed = [values] if isinstance(values, str) or not isinstance(values, Iterable) else list(values)
    for value in listed:
        if isinstance(value, bool) or not isinstance(value, kind):
            hint = "; math.inf means no noise" if name == "epsilon" else ""
            raise UsageError(f"{name}={value!r}: pass one number, or several in a list{hint}")
    return listed


def _baseline_key(planned: Plan) -> tuple[Any, ...]:
    """Return what the records of a plan's devices depend on, which decides what a device reaches alone."""
    options = planned.options
    faulty = planned.dishonest_count
    return options.seed, options.agents, options.partition, planned.transform, options.uses_training_ranges, faulty


def warn_about_data(planned: Plan, arguments: Mapping[str, str]) -> None:
    """Issue a DataWarning for each note about the plan's data, in the words of a function's arguments."""
    for problem, remedy in plan_notes(planned):
        warnings.warn(in_arguments(f"{problem}: {remedy}", arguments), DataWarning, stacklevel=5)


def _run_with_baselines(planned: Plan, watcher: Watcher, own: Baselines | None, wants_baselines: bool) -> Run:
    run = simulate_plan(planned, watcher, own)
    if not wants_baselines:
        return replace(run, alone=None)
    outcome = None if math.isinf(run.epsilon) or run.alone is None else run_alone(planned)
    return replace(run, alone_private=outcome)


def simulate_plan(planned: Plan, watcher: Watcher | None = None, own: Baselines | None = None) -> Run:
    """Simulate a plan and return the resulting run.

    Args:
        planned: the plan.
        watcher: receives the progress; None for none.
        own: the accuracies of trivial rules, if they are known; computing them can take longer than the run.
    """
    meter = _RecordingMeter(create_meter(planned))
    report = memory.run(planned, watcher or Watcher(), meter=cast(AnyMeter, meter))
    report.baselines = lambda: own
    document, options = report.document(), planned.options
    names = [name for name, value in document["final"].items() if isinstance(value, int | float)]
    curve = document["curve"]
    curve_names = [name for name in names if all(name in point for point in curve)]
    predicts_numbers = isinstance(report.final, PredictionErrors)
    return Run(
        learner=options.learner,
        epsilon=_epsilon(options),
        seed=options.seed,
        agents=options.agents,
        cycles=np.array([point["cycle"] for point in curve], dtype=np.int64),
        curves={name: np.array([point[name] for point in curve], dtype=np.float64) for name in curve_names},
        final={name: float(document["final"][name]) for name in names},
        majority=majority_accuracy(planned.test) if planned.classes > 1 else None,
        alone=document["final"]["mae_own_data"] if predicts_numbers else None if own is None else own.own_data,
        alone_private=None,
        privacy=document["privacy"],
        wire_bytes=int(document["traffic"]["wire_bytes"]),
        models=np.stack(meter.models) if meter.models else np.empty((0, planned.family.model.size)),
        warnings=tuple(in_arguments(text, SIMULATE) for text in document["warnings"]),
        document=document,
    )


def run_alone(planned: Plan) -> float:
    """Return the mean result of some of a plan's devices, each of which learns only from its own records.

    A device alone has no secure sums, so a learner that needs them is replaced by the default one.
    """
    options = replace(planned.options, agents=1, topology="full")
    if options.algorithm.secure_sums == "always":
        options = replace(
            options, learner=DEFAULT, settings=data_settings(options.settings), model=None, fits_steps=True
        )
    of_a_fleet = ("data.partition", "learner.contributors", "learner.spectral_gap", "privacy.noise", "privacy.cell.")
    settings = {key: value for key, value in options.settings.items() if not key.startswith(of_a_fleet)}
    options = replace(options, settings=settings, faults=type(options.faults)(), fault_specs=[])
    results = []
    holders = [records for records in planned.raw if len(records)]
    for records in holders[:: max(1, len(holders) // _DEVICES_ALONE)][:_DEVICES_ALONE]:
        data = DataSet(planned.name, records, planned.classes, planned.bounds, planned.raw_test, target=planned.target)
        run = simulate_plan(plan(options, data))
        results.append(run.final[run.measure])
    return float(np.mean(results))


def data_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that describe the data, which hold for any learner."""
    return {key: value for key, value in settings.items() if key.startswith("data.")}


def _epsilon(options: Options) -> float:
    return math.inf if options.epsilon is None else options.epsilon


def _dataset(
    data: Data,
    labels: ArrayLike | None,
    bounds: tuple[ArrayLike, ArrayLike] | None,
    test: Pair | None,
    groups: ArrayLike | None,
    classes: int | None,
    target: tuple[float, float] | None,
    agents: int | None,
    settings: Mapping[str, Any],
) -> tuple[DataSet, Groups | None]:
    """Convert the data passed to `simulate` into a data set, and say how its records are grouped."""
    if isinstance(data, str | DataSet):
        if any(argument is not None for argument in (labels, bounds, classes, target, test, groups)):
            raise UsageError(
                "labels, bounds, classes, target, test and groups apply only to arrays, since a data set has its own; "
                "omit them"
            )
        return load(data, read_declaration(settings)) if isinstance(data, str) else data, None
    features, values, split = join_parts(data, labels)
    if groups is not None:
        if split is not None:
            raise UsageError("groups: each pair of arrays is a group of its own; omit groups, or pass one pair")
        split = number_groups(groups, len(features))
    if split is not None and agents is not None and agents > split.count:
        raise UsageError(f"agents={agents}: the records form {split.count} groups; use at most {split.count} agents")
    if target is not None:
        if classes not in (None, 1):
            raise UsageError(f"classes={classes}: with target=, numbers are predicted; omit one of them")
        dataset = regression_data(features, values, bounds, target, test)
        return (dataset if split is None else replace(dataset, groups=split.numbers)), split
    table: Table = array_table(features, values, bounds, test, classes)
    return replace(table, groups=None if split is None else split.numbers).dataset(read_declaration(settings)), split
