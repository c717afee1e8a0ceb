"""Runs of a sweep: each run is saved when it finishes, and the results are collected."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sottovoce_lab.experiments import kept_runs
from sottovoce_lab.experiments.engines import run
from sottovoce_lab.experiments.kept_runs import Outcome, digest
from sottovoce_lab.testbed.progress import Watcher
from sottovoce_lab.testbed.run_spec import combinations, run_spec, split_sweep

SCHEMA = "sottovoce.sweep/1"
_MAX_POINTS = 60  # points of a curve
_ONE_AT_A_TIME = ("grpc", "mqtt", "mixed")  # a fleet of processes needs the whole machine


def sweep(
    values: Mapping[str, Any], origin: str, file: Path, on: str | None, told: Callable[[int, int, str], None]
) -> dict[str, Any]:
    """Run every combination of values.

    Args:
        values: values by dotted key; each entry of a list gives one run.
        origin: origin of the values, for errors.
        file: path of a file with one JSON line per run; runs that it contains are not repeated.
        on: `dask://HOST:PORT`; None for processes of this machine.
        told: called with the number of completed runs, the total, and the last run.

    Returns:
        `sottovoce.sweep/1`, which does not depend on where the runs were made.

    Raises:
        SottovoceError: if a run cannot be made; completed runs are kept.
    """
    runs = combinations(values)
    wanted = {digest(keys): keys for keys in runs}
    specs = {key: run_spec(keys, origin) for key, keys in wanted.items()}
    for spec in specs.values():
        spec.options()  # report impossible runs before any run begins
    done = {key: outcome for key, outcome in kept_runs.read_outcomes(file).items() if key in wanted}
    left = {key: keys for key, keys in wanted.items() if key not in done}
    told(len(done), len(wanted), "")
    if left:
        alone = any(specs[key].engine in _ONE_AT_A_TIME for key in left)
        place = kept_runs.processes(1 if alone else len(left)) if on is None else kept_runs.cluster(on)
        with place as pool:
            for key, outcome, _ in kept_runs.run_remaining(left, run_one, file, pool):
                done[key] = outcome
                told(len(done), len(wanted), run_label(wanted[key], values))
    return {
        "schema": SCHEMA,
        "keys": {key: list(chosen) for key, chosen in split_sweep(values)[1].items()},
        "runs": [{"set": keys, **done[digest(keys)]} for keys in runs],
    }


def run_one(keys: Mapping[str, Any]) -> Outcome:
    """Make one run in this process; return the results that do not depend on the machine's speed."""
    spec = run_spec(keys, "sweep")
    report = run(spec, Watcher(), kept_runs.load_cached(spec.data))
    curve = [{name: value for name, value in point.items() if name != "t_s"} for point in report["curve"]]
    return {
        "final": report["final"],
        "curve": [*curve[:-1][:: -(-len(curve) // _MAX_POINTS)], *curve[-1:]],
        "baselines": report["baselines"],
        "majority_class": report["run"].get("majority_class"),
        "privacy": kept_runs.guarantee(report),
        "warnings": report["warnings"],
    }


def run_label(keys: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    """Return the label of a run: the keys that differ between runs, with their values."""
    return ", ".join(f"{key} = {keys[key]}" for key in split_sweep(values)[1])
