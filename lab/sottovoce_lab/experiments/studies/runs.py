"""The runs of a study: which there are, each in a process of its own, and kept as soon as it is done."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sottovoce_lab.experiments import events, kept_runs
from sottovoce_lab.experiments.figures.sweep import anchored
from sottovoce_lab.experiments.kept_runs import Outcome, digest, new
from sottovoce_lab.experiments.studies.specification import Extent, StudySpec
from sottovoce_lab.testbed.progress import Watcher


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
    done = kept_runs.kept(kept)
    wanted = {digest(keys): keys for keys in runs.values()}  # a series that stands still is run once
    left = {key: keys for key, keys in wanted.items() if key not in done}
    if len(left) < len(wanted):
        say(f"{len(wanted) - len(left)} of {len(wanted)} runs were done before")
    if left:
        names = {digest(keys): place for place, keys in reversed(list(runs.items()))}
        with kept_runs.processes(len(left)) as pool:
            for count, (key, outcome, minutes) in enumerate(new(left, partial(one, measure=measure), kept, pool), 1):
                done[key] = outcome
                ahead = minutes / count * (len(left) - count)
                say(f"{count} of {len(left)}, about {ahead:.1f} min left: {_told(names[key], outcome)}")
    return {place: done[digest(keys)] for place, keys in runs.items()}


def one(keys: Mapping[str, Any], measure: str) -> Outcome:
    """One run in this process."""
    options = events.options(keys, "study")
    report, _ = events.run(options, Watcher(), data=kept_runs.loaded(options.data))
    return {
        "measure": report["final"][measure],
        "curve": [[point["cycle"], point.get(measure, point["accuracy_mean"])] for point in report["curve"]],
        "privacy": kept_runs.guarantee(report),
        "wall_s": report["run"]["wall_s"],
        "warnings": report["warnings"],
    }


def _told(place: Place, outcome: Outcome) -> str:
    at = "" if place.value is None else f" at {place.value}"
    return f"{place.panel}, {place.series}{at}, seed {place.seed}: {outcome['measure']:.4f}"
