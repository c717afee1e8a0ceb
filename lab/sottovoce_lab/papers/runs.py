"""Distribute an experiment's runs over processes, and save each run as soon as it ends."""

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sottovoce_lab.experiments import saved_runs
from sottovoce_lab.experiments.saved_runs import Keys, Outcome, digest, run_remaining
from sottovoce_lab.papers.one_run import ARRAYS, GRADIENT_WALK, run_on_arrays, run_one
from sottovoce_lab.papers.specification import Axis, Experiment, Extent, Part

_BUILT_IN = ("synthetic", "two-gaussians", "digits", "breast-cancer")


@dataclass(frozen=True, slots=True)
class RunPosition:
    """A run's position in an experiment.

    Attributes:
        panel: the panel's short name.
        series: the series' short name.
        x: the x value; None if there is no x axis.
        y: the y value; None if there is no y axis.
        seed: seed for all random draws.
    """

    panel: str
    series: str
    x: Any
    y: Any
    seed: int


def list_runs(
    spec: Experiment, extent: Extent, folder: Path, say: Callable[[str], None]
) -> dict[RunPosition, dict[str, Any]]:
    """Return each run's dotted keys by position; panels without data are skipped and reported through `say`."""
    runs: dict[RunPosition, dict[str, Any]] = {}
    for panel in extent.panels or spec.panels:
        keys = {**spec.set, **spec.panels[panel].set, **extent.set, **extent.at.get(panel, {})}
        source = resolve_source(str(keys.get("data.source", "digits")), folder)
        if source is None:
            say(f"{panel}: skipped because {keys['data.source']} is not in {folder}")
            continue
        for name in extent.series or spec.series:
            series = spec.series[name]
            for x in extent.x if spec.x else [None]:
                for y in extent.y if spec.y else [None]:
                    axes = {**_axis_keys(spec.y, y), **_axis_keys(spec.x, x)}  # a series' own keys override these
                    run_keys = {**keys, **axes, **_series_keys(series, panel, x, y), "data.source": source}
                    run_keys["privacy.allow_unproved"] = True
                    for seed in range(extent.count_seeds(panel, name, x)):
                        runs[RunPosition(panel, name, x, y, seed)] = {**run_keys, "seed": seed}
    return runs


def collect_outcomes(
    runs: Mapping[RunPosition, dict[str, Any]], file: Path, progress: Callable[[int, int, str], None]
) -> dict[RunPosition, Outcome]:
    """Return the outcomes of all runs, without repeating runs that an earlier call saved.

    Args:
        runs: the runs' keys, by position.
        file: the path of a file with one JSON line per run, created if it is missing.
        progress: receives the number of completed runs, the total, and a description of the last run.

    Raises:
        SottovoceError: if a run fails; completed runs stay saved.
    """
    # Equal keys have equal digests, so a series that does not depend on an axis runs only once.
    keys_by_digest = {digest(keys): keys for keys in runs.values()}
    saved_outcomes = {key: outcome for key, outcome in saved_runs.read_outcomes(file).items() if key in keys_by_digest}
    remaining = {key: keys for key, keys in keys_by_digest.items() if key not in saved_outcomes}
    progress(len(saved_outcomes), len(keys_by_digest), "")
    if remaining:
        positions = {digest(keys): position for position, keys in reversed(list(runs.items()))}
        batches = batch_walks(remaining)
        with saved_runs.processes(len(batches)) as pool:
            for key, outcome, _ in run_remaining(batches, _run_timed, file, pool):
                saved_outcomes[key] = outcome
                progress(len(saved_outcomes), len(keys_by_digest), describe_position(positions[key]))
    return {position: saved_outcomes[digest(keys)] for position, keys in runs.items()}


def batch_walks(runs: Mapping[str, Keys]) -> list[dict[str, Keys]]:
    """Group runs, by digest, into batches: gradient walks that differ only in ε share one, other runs are alone."""
    batches: dict[str, dict[str, Keys]] = {}
    for key, keys in runs.items():
        is_walk = keys.get("engine") == ARRAYS and keys.get("learner") == GRADIENT_WALK
        group = digest({**keys, "epsilon": None}) if is_walk else key
        batches.setdefault(group, {})[key] = keys
    return list(batches.values())


def _run_timed(batch: list[Keys]) -> list[Outcome]:
    started = time.process_time()  # unlike the clock, independent of other programs on the machine
    outcomes = run_on_arrays(batch) if len(batch) > 1 else [run_one(batch[0])]
    gc.collect()  # a few objects in reference cycles keep gigabytes of a fleet's releases alive
    seconds = round((time.process_time() - started) / len(batch), 3)
    return [{**outcome, "seconds": seconds} for outcome in outcomes]


def describe_position(position: RunPosition) -> str:
    """Describe a position for progress messages."""
    axis_values = ", ".join(f"{value}" for value in (position.x, position.y) if value is not None)
    at_values = f" at {axis_values}" if axis_values else ""
    return f"{position.panel}, {position.series}{at_values}, seed {position.seed}"


def resolve_source(source: str, folder: Path) -> str | None:
    """Return a data SPEC with its path inside the data folder, or None if that path does not exist."""
    kind, colon, rest = source.partition(":")
    if not colon or source.partition("#")[0] in _BUILT_IN:
        return source
    location, hash_sign, options = rest.partition("#")
    path = folder / location
    return f"{kind}:{path}{hash_sign}{options}" if path.exists() else None


def _axis_keys(axis: Axis | None, value: Any) -> dict[str, Any]:
    return dict.fromkeys([key for key in (axis.key, *axis.also) if key], value) if axis else {}


def _series_keys(series: Part, panel: str, x: Any, y: Any) -> dict[str, Any]:
    return {**series.set, **series.at.get(panel, {}), **series.at.get(str(x), {}), **series.at.get(str(y), {})}
