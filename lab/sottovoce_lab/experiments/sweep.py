"""Execute a sweep, saving each run when it finishes and collecting all results."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sottovoce_lab.experiments import saved_runs
from sottovoce_lab.experiments.engines import run
from sottovoce_lab.experiments.saved_runs import Outcome, digest
from sottovoce_lab.testbed.plan import read_declaration
from sottovoce_lab.testbed.progress import Watcher
from sottovoce_lab.testbed.run_spec import build_run_spec, combinations, split_sweep

SCHEMA = "sottovoce.sweep/1"
_MAX_POINTS = 60  # maximum number of points per curve
_ONE_AT_A_TIME = ("grpc", "mqtt", "mixed")  # these engines run agents as processes, and a fleet needs the whole machine


def run_sweep(
    values: Mapping[str, Any], origin: str, file: Path, on: str | None, progress: Callable[[int, int, str], None]
) -> dict[str, Any]:
    """Execute one run for every combination of values.

    Args:
        values: the values, by dotted key; a list contains a key's alternatives.
        origin: where the values come from, for error messages.
        file: the path of a file with one JSON line per run; runs already in the file are not repeated.
        on: the address of a Dask scheduler, `dask://HOST:PORT`; None for processes on this machine.
        progress: receives the number of completed runs, the total number, and the label of the last run.

    Returns:
        The document `sottovoce.sweep/1`, which does not depend on where the runs were executed.

    Raises:
        SottovoceError: if a run is impossible or fails; completed runs stay in the file.
    """
    runs = combinations(values)
    keys_by_digest = {digest(keys): keys for keys in runs}
    specs = {key: build_run_spec(keys, origin) for key, keys in keys_by_digest.items()}
    for spec in specs.values():
        spec.options()  # report impossible runs before the first run starts
    saved_outcomes = {key: outcome for key, outcome in saved_runs.read_outcomes(file).items() if key in keys_by_digest}
    remaining = {key: keys for key, keys in keys_by_digest.items() if key not in saved_outcomes}
    progress(len(saved_outcomes), len(keys_by_digest), "")
    if remaining:
        runs_one_at_a_time = any(specs[key].engine in _ONE_AT_A_TIME for key in remaining)
        process_count = 1 if runs_one_at_a_time else len(remaining)
        workers = saved_runs.processes(process_count) if on is None else saved_runs.cluster(on)
        with workers as pool:
            batches = [{key: keys} for key, keys in remaining.items()]
            for key, outcome, _ in saved_runs.run_remaining(batches, _run_batch, file, pool):
                saved_outcomes[key] = outcome
                progress(len(saved_outcomes), len(keys_by_digest), run_label(keys_by_digest[key], values))
    return {
        "schema": SCHEMA,
        "keys": {key: list(alternatives) for key, alternatives in split_sweep(values)[1].items()},
        "runs": [{"set": keys, **saved_outcomes[digest(keys)]} for keys in runs],
    }


def run_one(keys: Mapping[str, Any]) -> Outcome:
    """Execute one run in this process, and return only results that do not depend on the machine's speed."""
    spec = build_run_spec(keys, "sweep")
    report = run(spec, Watcher(), saved_runs.load_cached(spec.data, read_declaration(spec.settings)))
    curve = [{name: value for name, value in point.items() if name != "t_s"} for point in report["curve"]]
    return {
        "final": report["final"],
        "curve": [*curve[:-1][:: -(-len(curve) // _MAX_POINTS)], *curve[-1:]],
        "baselines": report["baselines"],
        "majority_class": report["run"].get("majority_class"),
        "privacy": saved_runs.guarantee(report),
        "warnings": report["warnings"],
    }


def _run_batch(batch: list[saved_runs.Keys]) -> list[Outcome]:
    return [run_one(keys) for keys in batch]


def run_label(keys: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    """Return a run's label: the keys that differ between runs, with their values in this run."""
    return ", ".join(f"{key} = {keys[key]}" for key in split_sweep(values)[1])
