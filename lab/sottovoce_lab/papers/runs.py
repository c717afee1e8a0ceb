"""Distribute an experiment's runs over processes, and save each run as soon as it ends."""

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sottovoce_lab.experiments import kept_runs
from sottovoce_lab.experiments.kept_runs import Outcome, digest, run_remaining
from sottovoce_lab.papers.one_run import run_one
from sottovoce_lab.papers.specification import Axis, Experiment, Extent, Part

_MADE = ("synthetic", "two-gaussians", "digits", "breast-cancer")


@dataclass(frozen=True, slots=True)
class Place:
    """A run's place in an experiment.

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


def runs_of(spec: Experiment, extent: Extent, folder: Path, say: Callable[[str], None]) -> dict[Place, dict[str, Any]]:
    """Return the dotted keys of every run, by place, leaving out each panel without data, with a message."""
    found: dict[Place, dict[str, Any]] = {}
    for panel in extent.panels or spec.panels:
        keys = {**spec.set, **spec.panels[panel].set, **extent.set, **extent.at.get(panel, {})}
        source = resolve_source(str(keys.get("data.source", "digits")), folder)
        if source is None:
            say(f"{panel}: left out because {keys['data.source']} is not in {folder}")
            continue
        for name in extent.series or spec.series:
            series = spec.series[name]
            for x in extent.x if spec.x else [None]:
                for y in extent.y if spec.y else [None]:
                    axes = {**_of_axis(spec.y, y), **_of_axis(spec.x, x)}  # a series' own keys override these
                    own = {**keys, **axes, **_of_series(series, panel, x, y), "data.source": source}
                    own["privacy.allow_unproved"] = True
                    for seed in range(extent.seeds):
                        found[Place(panel, name, x, y, seed)] = {**own, "seed": seed}
    return found


def collect_outcomes(
    runs: Mapping[Place, dict[str, Any]], file: Path, told: Callable[[int, int, str], None]
) -> dict[Place, Outcome]:
    """Return the outcomes of all runs, without repeating runs that an earlier call saved.

    Args:
        runs: the keys of the runs, by place.
        file: the path of a file with one JSON line per run, created if it is missing.
        told: receives the number of completed runs, the total, and a description of the last run.

    Raises:
        SottovoceError: if a run fails; completed runs stay saved.
    """
    wanted = {digest(keys): keys for keys in runs.values()}  # a series that does not depend on an axis runs only once
    done = {key: outcome for key, outcome in kept_runs.read_outcomes(file).items() if key in wanted}
    left = {key: keys for key, keys in wanted.items() if key not in done}
    told(len(done), len(wanted), "")
    if left:
        names = {digest(keys): place for place, keys in reversed(list(runs.items()))}
        with kept_runs.processes(len(left)) as pool:
            for key, outcome, _ in run_remaining(left, _timed, file, pool):
                done[key] = outcome
                told(len(done), len(wanted), described(names[key]))
    return {place: done[digest(keys)] for place, keys in runs.items()}


def _timed(keys: Mapping[str, Any]) -> Outcome:
    began = time.monotonic()
    outcome = run_one(keys)
    gc.collect()  # a fleet's releases take gigabytes, which a few objects keep in reference cycles
    return {**outcome, "seconds": round(time.monotonic() - began, 2)}


def described(place: Place) -> str:
    """Describe a place for progress messages."""
    at = ", ".join(f"{value}" for value in (place.x, place.y) if value is not None)
    return f"{place.panel}, {place.series}{f' at {at}' if at else ''}, seed {place.seed}"


def resolve_source(source: str, folder: Path) -> str | None:
    """Return a data SPEC with its path inside the data folder, or None if that path does not exist."""
    kind, colon, rest = source.partition(":")
    if not colon or source.partition("#")[0] in _MADE:
        return source
    location, hash_sign, options = rest.partition("#")
    path = folder / location
    return f"{kind}:{path}{hash_sign}{options}" if path.exists() else None


def _of_axis(axis: Axis | None, value: Any) -> dict[str, Any]:
    return dict.fromkeys([key for key in (axis.key, *axis.also) if key], value) if axis else {}


def _of_series(series: Part, panel: str, x: Any, y: Any) -> dict[str, Any]:
    return {**series.set, **series.at.get(panel, {}), **series.at.get(str(x), {}), **series.at.get(str(y), {})}
