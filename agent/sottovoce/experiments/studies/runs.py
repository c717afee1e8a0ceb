"""The runs of a study: which there are, each in a process of its own, and kept as soon as it is done."""

import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import sottovoce
from sottovoce.data import DataSet, load
from sottovoce.experiments import events
from sottovoce.experiments.figures.sweep import Silent, anchored
from sottovoce.experiments.studies.specification import Extent, StudySpec

Outcome = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run belongs.

    Attributes:
        panel: short name.
        series: short name.
        value: of the axis; None without an axis.
        seed: of everything.
    """

    panel: str
    series: str
    value: Any
    seed: int


def asked(spec: StudySpec, extent: Extent, folder: Path, say: Callable[[str], None]) -> dict[Place, dict[str, Any]]:
    """Every run of a study, with its dotted keys. A panel whose data is not in the folder is left out, and said."""
    found: dict[Place, dict[str, Any]] = {}
    for panel in extent.panels or spec.panels:
        keys = {**spec.set, **spec.panels[panel].set, **extent.set}
        source = anchored(str(keys.get("data.source", "digits")), folder)
        if source is None:
            say(f"{panel}: left out, {keys['data.source']} is not in {folder}")
            continue
        for series in extent.series or spec.series:
            for value in extent.values if spec.axis else [None]:
                for seed in range(extent.seeds):
                    own = {**keys, **spec.series[series].set, "data.source": source, "seed": seed}
                    own |= spec.series[series].at.get(panel, {}) | spec.series[series].at.get(str(value), {})
                    if spec.axis:
                        own.setdefault(spec.axis, value)  # a series may stand still: without noise, say
                    found[Place(panel, series, value, seed)] = {**own, "privacy.allow_unproved": True}
    return found


def conducted(
    runs: Mapping[Place, dict[str, Any]], measure: str, kept: Path, say: Callable[[str], None]
) -> dict[Place, Outcome]:
    """The outcomes of all runs; those that were kept by an earlier call are not run again.

    Args:
        runs: keys by place.
        measure: the name of the report's `final` part that is kept, beside the curve and the guarantee.
        kept: a file of one JSON line a run, made when it is missing.
        say: is told how it goes.

    Raises:
        SottovoceError: a run cannot be made; those that were done are kept.
    """
    done = dict(_read(kept))
    wanted = {_digest(keys): keys for keys in runs.values()}  # a series that stands still is run once
    left = {digest: keys for digest, keys in wanted.items() if digest not in done}
    if len(left) < len(wanted):
        say(f"{len(wanted) - len(left)} of {len(wanted)} runs were done before")
    if left:
        names = {_digest(keys): place for place, keys in reversed(list(runs.items()))}
        for count, (digest, outcome, minutes) in enumerate(_new(left, measure, kept), 1):
            done[digest] = outcome
            ahead = minutes / count * (len(left) - count)
            say(f"{count} of {len(left)}, about {ahead:.1f} min left: {_told(names[digest], outcome)}")
    return {place: done[_digest(keys)] for place, keys in runs.items()}


def _new(left: Mapping[str, dict[str, Any]], measure: str, kept: Path) -> Iterator[tuple[str, Outcome, float]]:
    """Each run's digest and outcome, kept as soon as it is there, and the minutes since the first began."""
    began, workers = time.monotonic(), min(len(left), os.cpu_count() or 1)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool, kept.open("a", encoding="utf-8") as lines:
        lines.write("\n")  # ends a line that was cut off
        waiting = {pool.submit(one, keys, measure): digest for digest, keys in left.items()}
        try:
            for future in as_completed(waiting):
                outcome = future.result()
                lines.write(json.dumps({"run": waiting[future], **outcome}) + "\n")
                lines.flush()
                yield waiting[future], outcome, (time.monotonic() - began) / 60
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def one(keys: Mapping[str, Any], measure: str) -> Outcome:
    """One run in this process."""
    options = events.options(keys, "study")
    report, _ = events.run(options, Silent(), data=_loaded(options.data))
    privacy = report["privacy"]
    told = ("epsilon", "delta", "status", "spent_epsilon_max", "neighbouring", "unit", "reason", "mechanism")
    return {
        "measure": report["final"][measure],
        "curve": [[point["cycle"], point.get(measure, point["accuracy_mean"])] for point in report["curve"]],
        "privacy": {name: privacy[name] for name in told},
        "wall_s": report["run"]["wall_s"],
        "warnings": report["warnings"],
    }


@lru_cache(maxsize=1)
def _loaded(source: str) -> DataSet:
    return load(source)


def _digest(keys: Mapping[str, Any]) -> str:
    words = json.dumps({**keys, "version": sottovoce.__version__}, sort_keys=True, default=str)
    return sha256(words.encode()).hexdigest()[:32]


def _read(kept: Path) -> Iterator[tuple[str, Outcome]]:
    """What an earlier call left; a last line that was cut off is not there."""
    if not kept.exists():
        return
    for line in kept.read_text(encoding="utf-8").splitlines():
        try:
            outcome = json.loads(line)
            yield outcome.pop("run"), outcome
        except (ValueError, KeyError):
            continue


def _told(place: Place, outcome: Outcome) -> str:
    at = "" if place.value is None else f" at {place.value}"
    return f"{place.panel}, {place.series}{at}, seed {place.seed}: {outcome['measure']:.4f}"
