"""Compare a run with simulations on the same data: noise-free, with secure sums, and with a single device."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.pool import Pool
from typing import Any

import numpy as np
from sottovoce.config import CellSection
from sottovoce.data import DataSet
from sottovoce.learning.registry import ALGORITHMS, loaded_algorithms

from sottovoce_lab.experiments.saved_runs import AT_ONCE, end_with_parent
from sottovoce_lab.library.simulation import simulate_plan
from sottovoce_lab.papers.cells import half_interval
from sottovoce_lab.simulator import Faults
from sottovoce_lab.testbed.options import Options
from sottovoce_lab.testbed.plan import Plan, plan

SEEDS = 3
_DEVICES_ALONE = 4  # how many devices per seed are simulated alone
_NICENESS = 10  # lower priority than the fleet, but not so low that other programs stop the simulations entirely


@dataclass(frozen=True, slots=True)
class Comparison:
    """The accuracy of a simulated variant of a run.

    Attributes:
        label: a description of the variant.
        mean: the mean accuracy over seeds.
        half_width: the half-width of the 95 % confidence interval of the mean over seeds.
        seeds: the number of simulations, each with a different data split; the first uses the same split as the run.
        promise: a description of the adversary, and of how a record is protected.
    """

    label: str
    mean: float
    half_width: float
    seeds: int
    promise: str

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as a JSON-ready dictionary."""
        return {
            "label": self.label,
            "accuracy_mean": self.mean,
            "half_interval": self.half_width,
            "seeds": self.seeds,
            "promise": self.promise,
        }


@contextmanager
def start_comparisons(planned: Plan) -> Iterator[Callable[[], list[Comparison]]]:
    """Start simulations of a run's variants, and provide a function that waits for their accuracies.

    The variants are a single device with the same ε, secure sums with shared noise, and no noise. If the
    run is not a classification, the list of results is empty. The simulations have a low priority, so the run
    itself can take place at the same time.

    Args:
        planned: the plan for the run.
    """
    options = replace(planned.options, transport="memory", faults=Faults(), fault_specs=[])
    if planned.classes < 2 or not ALGORITHMS[options.learner].predicts:
        yield list
        return
    budget = "no ε" if options.epsilon is None else f"ε = {options.epsilon:g}"
    variants: dict[str, _Variant] = {f"one device alone, {budget}": _run_alone}
    if options.epsilon is not None:
        if options.learner != _secure_sums_learner() and options.agents >= CellSection().min:
            variants[f"secure sums, {budget}"] = _run_secure_sums
        variants["no noise at all"] = _run_noise_free
    with _processes(len(variants) * SEEDS) as pool:
        runs = {
            label: [pool.apply_async(variant, [replace(options, seed=options.seed + seed)]) for seed in range(SEEDS)]
            for label, variant in variants.items()
        }
        yield lambda: [_summarise(label, [run.get() for run in results]) for label, results in runs.items()]


_Outcome = tuple[float, str]
"""The accuracy, and the adversary against whom a record is protected."""

_Variant = Callable[[Options], _Outcome]


@contextmanager
def _processes(maximum: int) -> Iterator[Pool]:
    """Provide processes with a low priority, up to one per processor, which are killed at the end.

    The processes inherit a handler that ignores Ctrl-C, so Ctrl-C interrupts only the caller.
    """
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        pool = multiprocessing.get_context("spawn").Pool(min(maximum, AT_ONCE), _start_process, (_NICENESS,))
    finally:
        signal.signal(signal.SIGINT, handler)
    with pool:
        yield pool


def _start_process(niceness: int) -> None:
    os.nice(niceness)
    end_with_parent()


def _summarise(label: str, outcomes: Sequence[_Outcome]) -> Comparison:
    accuracies = np.array([accuracy for accuracy, _ in outcomes])
    return Comparison(label, float(accuracies.mean()), half_interval(accuracies), len(outcomes), outcomes[0][1])


def _run_noise_free(options: Options) -> _Outcome:
    run = simulate_plan(plan(replace(options, epsilon=None)))
    return run.final["accuracy_mean"], "no one: every message may reveal records"


def _run_secure_sums(options: Options) -> _Outcome:
    data_settings = {key: value for key, value in options.settings.items() if key.startswith("data.")}
    secure_sums = replace(
        options,
        learner=_secure_sums_learner(),
        topology="full",
        settings=data_settings,
        model=None,
        fits_steps=False,  # keep the run's number of cycles
    )
    run = simulate_plan(plan(secure_sums))
    return run.final["accuracy_mean"], str(run.privacy["threat_model"])


def _secure_sums_learner() -> str:
    """Return the name of the first learner that trains a model and always uses secure sums."""
    return next(
        name
        for name, algorithm in loaded_algorithms().items()
        if algorithm.secure_sums == "always" and algorithm.predicts
    )


def _run_alone(options: Options) -> _Outcome:
    """Return the mean accuracy of some devices, each of which learns only from its own records."""
    planned = plan(options)
    accuracies = []
    settings = {key: value for key, value in options.settings.items() if key != "data.partition"}
    for records in planned.raw[:: max(1, len(planned.raw) // _DEVICES_ALONE)][:_DEVICES_ALONE]:
        data = DataSet(planned.name, records, planned.classes, planned.bounds, planned.raw_test)
        run = simulate_plan(plan(replace(options, agents=1, topology="full", settings=settings), data))
        accuracies.append(run.final["accuracy_mean"])
    return float(np.mean(accuracies)), "anyone who gets its model"
