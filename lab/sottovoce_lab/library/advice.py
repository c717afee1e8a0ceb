"""Recommend a learner for a fleet of a given shape, based on simulations with synthetic public data.

The separability of the classes in the private records is unknown. The best learners are therefore simulated on mixtures
of three difficulties, and the interval of the expected accuracy spans all three.
"""

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sottovoce.config import CellSection
from sottovoce.data import DataSet, Records
from sottovoce.errors import UsageError
from sottovoce.learning.registry import ALGORITHMS, loaded_algorithms

from sottovoce_lab.experiments.saved_runs import processes
from sottovoce_lab.library.simulation import simulate_plan
from sottovoce_lab.testbed.plan import plan
from sottovoce_lab.testbed.run_spec import build_run_spec

_HARD, _USUAL = 0.7, 0.99
"""Accuracies of the optimal noise-free classifier, which determine the class separations."""
# The easy separation, as a multiple of the usual one. Real classes differ mostly along high-variance directions, so
# they lose less accuracy to noise.
_EASY_FACTOR = 1.6
_BISECTIONS = 25
_MIN_SPAN = 0.1  # minimum fraction of its declared range that a feature uses; real features seldom use all of it
_SPANS = 1  # seed for the fraction of its declared range that each feature uses
MAX_AGENTS, MAX_RECORDS = 12, 3000
"""Maximum number of agents, and of records per agent, in a simulation; larger numbers are reduced to these."""
_TEST = 1500
_SEEDS = (0, 1)
_SKEWED_PARTITION = "dirichlet(0.25)"
Floats = NDArray[np.float64]
_FINALISTS = 4  # how many learners are simulated for every difficulty and seed


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of a fleet and its task; contains only public facts.

    Attributes:
        records: the number of records per device.
        agents: the number of devices.
        features: the number of features per record.
        classes: the number of classes, at least 2.
        epsilon: ε in each device's budget.
        unlike: whether the class distribution differs between devices.

    Raises:
        UsageError: if a number is out of range.
    """

    records: int
    agents: int
    features: int
    classes: int
    epsilon: float
    unlike: bool = False

    def __post_init__(self) -> None:
        """Check that every number is in range."""
        for name, value, minimum in (
            ("records", self.records, 10),
            ("agents", self.agents, 2),
            ("features", self.features, 1),
            ("classes", self.classes, 2),
        ):
            if value < minimum:
                raise UsageError(f"--{name} {value}: choose {minimum} or more")
        if not 0 < self.epsilon <= 100:
            raise UsageError(f"--epsilon {self.epsilon:g}: must be greater than 0 and at most 100")

    @property
    def simulated_size(self) -> tuple[int, int]:
        """The number of devices in a simulation, and the number of records per device."""
        return min(self.agents, MAX_AGENTS), min(self.records, MAX_RECORDS)


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A learner and its simulated results.

    Attributes:
        learner: the learner name.
        accuracies: the accuracies by class separation, for one or more seeds each.
        wire_bytes: the mean number of bytes that a device sends.
        promise: the adversary against whom a record is protected.
        one_member: the harm that a single dishonest member can do.
        local: whether each device is protected by its own noise, regardless of other devices.
        settings: the values of the learner's most important keys.
    """

    learner: str
    accuracies: Mapping[float, tuple[float, ...]]
    wire_bytes: float
    promise: str
    one_member: str
    local: bool
    settings: Mapping[str, Any]

    @property
    def mean(self) -> float:
        """The mean accuracy over all difficulties."""
        return float(np.mean([np.mean(accuracies) for accuracies in self.accuracies.values()]))

    @property
    def interval(self) -> tuple[float, float]:
        """The lowest and highest accuracy over all runs."""
        all_accuracies = [accuracy for accuracies in self.accuracies.values() for accuracy in accuracies]
        return min(all_accuracies), max(all_accuracies)


def advise(
    shape: Shape, progress: Callable[[int, int, str], None] = lambda done, total, name: None
) -> list[Recommendation]:
    """Rank suitable learners by simulated accuracy, best first.

    All learners are simulated on the usual difficulty, and the best few also on every difficulty and seed. Ctrl-C ends
    the simulations early; the learners simulated so far are then ranked on the usual difficulty alone.

    Args:
        shape: the shape of the fleet.
        progress: receives the number of completed runs, the total number, and the learner of the last run.

    Raises:
        KeyboardInterrupt: if no run was completed before Ctrl-C.
    """
    names = [
        name
        for name, algorithm in loaded_algorithms().items()
        if algorithm.predicts and not algorithm.noiseless and _fits(name, shape)
    ]
    difficulties = compute_separations(shape)
    usual = difficulties[1]
    count = len(names) + min(_FINALISTS, len(names)) * (len(difficulties) * len(_SEEDS) - 1)
    done = itertools.count(1)
    results: dict[tuple[str, float, int], _Result] = {}
    is_complete = False
    with processes(count) as pool:

        def run_jobs(jobs: list[tuple[str, float, int]]) -> None:
            running = {job: pool.submit(_simulate_once, shape, *job) for job in jobs}
            for job, future in running.items():
                results[job] = future.result()
                progress(next(done), count, job[0])

        def rank_names() -> list[str]:
            known = [name for name in names if (name, usual, 0) in results]
            return sorted(known, key=lambda name: -results[name, usual, 0].accuracy)

        try:
            run_jobs([(name, usual, 0) for name in names])
            finalists = rank_names()[:_FINALISTS]
            run_jobs([job for job in itertools.product(finalists, difficulties, _SEEDS) if job not in results])
            is_complete = True
        except KeyboardInterrupt:
            if not results:
                raise
    ranked_names = rank_names()
    recommendations = [
        _summarise(name, {job: result for job, result in results.items() if job[0] == name}) for name in ranked_names
    ]
    if not is_complete:
        return recommendations
    return (
        sorted(recommendations[:_FINALISTS], key=lambda recommendation: -recommendation.mean)
        + recommendations[_FINALISTS:]
    )


@dataclass(frozen=True, slots=True)
class _Result:
    accuracy: float
    wire_bytes: float
    promise: str
    settings: dict[str, Any]


def _fits(name: str, shape: Shape) -> bool:
    return ALGORITHMS[name].secure_sums != "always" or shape.agents >= CellSection().min


def _simulate_once(shape: Shape, learner: str, separation: float, seed: int) -> _Result:
    agents, _ = shape.simulated_size
    keys: dict[str, Any] = {"learner": learner, "agents": agents, "epsilon": shape.epsilon, "seed": seed}
    if shape.unlike:
        keys["data.partition"] = _SKEWED_PARTITION
    planned = plan(
        build_run_spec({**keys, "data": "made-up"}, "advise").options(), generate_mixture(shape, separation, seed)
    )
    run = simulate_plan(planned)
    learner_config = planned.config.learner
    decisive = ("steps", "step_size", "clip", "sampling", "batch", "mixing")
    settings = {
        key: getattr(learner_config, key)
        for key in decisive
        if getattr(learner_config, key, None) is not None and not learner_config.explain_unused(key)
    }
    sent = run.wire_bytes / agents
    return _Result(run.final["accuracy_mean"], sent, str(run.privacy["threat_model"]), settings)


def _summarise(name: str, results: Mapping[tuple[str, float, int], _Result]) -> Recommendation:
    accuracies: dict[float, tuple[float, ...]] = {}
    for (_, separation, _), result in results.items():
        accuracies[separation] = (*accuracies.get(separation, ()), result.accuracy)
    first = next(iter(results.values()))
    algorithm = ALGORITHMS[name]
    local = algorithm.secure_sums != "always"
    return Recommendation(
        name, accuracies, first.wire_bytes, first.promise, algorithm.one_member, local, first.settings
    )


def compute_separations(shape: Shape) -> tuple[float, float, float]:
    """Return how far class means lie from their centre, in standard deviations, for hard, usual and easy data."""
    usual = _separation(shape, _USUAL)
    return _separation(shape, _HARD), usual, _EASY_FACTOR * usual


def _separation(shape: Shape, accuracy: float) -> float:
    """Return the distance at which the optimal noise-free classifier has this accuracy."""
    low, high = 0.01, 100.0
    for _ in range(_BISECTIONS):
        middle = math.sqrt(low * high)
        means, scales, values, labels = _draw_mixture(shape, middle, 0, _TEST)
        weights = means / scales**2
        best = (values @ weights.T - (weights * means).sum(axis=1) / 2).argmax(axis=1)
        low, high = (middle, high) if (best == labels).mean() < accuracy else (low, middle)
    return high


def _draw_mixture(
    shape: Shape, separation: float, seed: int, count: int
) -> tuple[Floats, Floats, Floats, NDArray[np.int64]]:
    """Draw a mixture, and return its class means, scales, values and labels."""
    features = shape.features
    rng = np.random.default_rng((seed, features, shape.classes))
    means = rng.standard_normal((shape.classes, features))
    means *= separation / np.linalg.norm(means, axis=1, keepdims=True)
    scales = 1 / np.sqrt(1 + np.arange(features) / 4)  # as in real data, few directions have most of the variance
    scales *= np.sqrt(features / (scales**2).sum())
    labels = rng.integers(0, shape.classes, count)
    return means, scales, means[labels] + rng.standard_normal((count, features)) * scales, labels


def generate_mixture(shape: Shape, separation: float, seed: int) -> DataSet:
    """Generate records in -1 … 1 for a shape, with one normal distribution per class, mostly along a few directions.

    Args:
        shape: the shape of the fleet.
        separation: how far the class means lie from their centre, in standard deviations.
        seed: seed for all random draws.
    """
    agents, per_agent = shape.simulated_size
    count, features = agents * per_agent + _TEST, shape.features
    _, _, values, labels = _draw_mixture(shape, separation, seed, count)
    values = np.clip(values / (3 * np.sqrt(1 + (separation**2) / features)), -1, 1)
    values *= _MIN_SPAN ** np.random.default_rng((_SPANS, features)).random(features)
    train, test = slice(0, count - _TEST), slice(count - _TEST, count)
    bounds = np.full(features, -1.0), np.full(features, 1.0)
    held_out = Records(values[test], labels[test])
    return DataSet("made-up", Records(values[train], labels[train]), shape.classes, bounds, held_out)
