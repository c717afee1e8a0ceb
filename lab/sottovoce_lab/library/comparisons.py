"""Compare a run with simulations on its data: without noise, with other noise, and with a single device."""

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
from sottovoce.learning.registry import ALGORITHMS, DEFAULT, loaded_algorithms

from sottovoce_lab.experiments.saved_runs import AT_ONCE, end_with_parent
from sottovoce_lab.library.runs import Run
from sottovoce_lab.library.simulation import data_settings, run_alone, simulate_plan
from sottovoce_lab.papers.cells import half_interval
from sottovoce_lab.simulator import Faults
from sottovoce_lab.testbed.options import Options
from sottovoce_lab.testbed.plan import Plan, plan

SEEDS = 3
_ADVANCE_SECONDS = 1.0  # between two signs of progress
_NICENESS = 10  # lower priority than the fleet, but not so low that other programs stop the simulations entirely


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a simulated variant of a run.

    Attributes:
        label: a description of the variant.
        measure: what is compared: `accuracy`, or `mae` for predicted numbers.
        mean: the mean result over seeds.
        half_width: the half-width of the 95 % confidence interval of the mean over seeds.
        seeds: the number of simulations, each with a different data split; the first uses the same split as the run.
        promise: a description of the adversary, and of how a record is protected.
    """

    label: str
    measure: str
    mean: float
    half_width: float
    seeds: int
    promise: str

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as a JSON-ready dictionary."""
        return {
            "label": self.label,
            f"{self.measure}_mean": self.mean,
            "half_interval": self.half_width,
            "seeds": self.seeds,
            "promise": self.promise,
        }


@contextmanager
def start_comparisons(planned: Plan) -> Iterator[Callable[[Callable[[int, int], None]], list[Comparison]]]:
    """Start simulations of a run's variants, and provide a function that waits for their results.

    While it waits, that function calls its argument at least once a second, with the numbers of completed simulations
    and of all simulations.

    The variants are a single device with the same ε, secure sums with shared noise, and no noise. A run with secure
    sums is compared with noise that each device adds in full instead, and its variants use the default learner. If the
    run predicts nothing, the list of results is empty. The simulations have a low priority, so the run itself can take
    place at the same time.

    Args:
        planned: the plan for the run.
    """
    options = replace(planned.options, transport="memory", faults=Faults(), fault_specs=[])
    if not ALGORITHMS[options.learner].predicts:
        yield lambda _: []
        return
    budget = "no ε" if options.epsilon is None else f"ε = {options.epsilon:g}"
    uses_secure_sums = options.algorithm.secure_sums == "always"
    if uses_secure_sums:
        options = replace(options, learner=DEFAULT, settings=_other_settings(options), model=None)
    variants: dict[str, _Variant] = {f"one device alone, {budget}": _run_alone}
    if options.epsilon is not None:
        if uses_secure_sums:
            variants[f"each device's own noise, {budget}"] = _run_with_noise
        elif planned.classes > 1 and options.agents >= CellSection().min:
            variants[f"secure sums, {budget}"] = _run_secure_sums
        variants["no noise at all"] = _run_noise_free
    with _processes(len(variants) * SEEDS) as pool:
        runs = {
            label: [pool.apply_async(variant, [replace(options, seed=options.seed + seed)]) for seed in range(SEEDS)]
            for label, variant in variants.items()
        }

        def collect(advance: Callable[[int, int], None]) -> list[Comparison]:
            simulations = [run for results in runs.values() for run in results]
            while unfinished := [run for run in simulations if not run.ready()]:
                advance(len(simulations) - len(unfinished), len(simulations))
                unfinished[0].wait(_ADVANCE_SECONDS)
            return [_summarise(label, [run.get() for run in results]) for label, results in runs.items()]

        yield collect


_Outcome = tuple[str, float, str]
"""The measure, its value, and the adversary against whom a record is protected."""

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
    values = np.array([value for _, value, _ in outcomes])
    measure, _, promise = outcomes[0]
    return Comparison(label, measure, float(values.mean()), half_interval(values), len(outcomes), promise)


def _outcome(run: Run, promise: str) -> _Outcome:
    return run.measure.removesuffix("_mean"), run.final[run.measure], promise


def _run_noise_free(options: Options) -> _Outcome:
    run = simulate_plan(plan(replace(options, epsilon=None)))
    return _outcome(run, "no one: every message may reveal records")


def _run_with_noise(options: Options) -> _Outcome:
    run = simulate_plan(plan(options))
    return _outcome(run, str(run.privacy["threat_model"]))


def _run_secure_sums(options: Options) -> _Outcome:
    secure_sums = replace(
        options,
        learner=_secure_sums_learner(),
        topology="full",
        settings=data_settings(options.settings),
        model=None,
        fits_steps=False,  # keep the run's number of cycles
    )
    return _run_with_noise(secure_sums)


def _other_settings(options: Options) -> dict[str, Any]:
    """Return the settings of a run with secure sums that say nothing about its learner or its noise."""
    prefixes = ("learner.", "privacy.noise", "privacy.cell")
    return {key: value for key, value in options.settings.items() if not key.startswith(prefixes)}


def _secure_sums_learner() -> str:
    """Return the name of the first learner that trains a model and always uses secure sums."""
    return next(
        name
        for name, algorithm in loaded_algorithms().items()
        if algorithm.secure_sums == "always" and algorithm.predicts
    )


def _run_alone(options: Options) -> _Outcome:
    """Return the mean result of some devices, each of which learns only from its own records."""
    planned = plan(options)
    return ("accuracy" if planned.classes > 1 else "mae"), run_alone(planned), "anyone who gets its model"
