"""Save each run's results as soon as it finishes, so that an interrupted call can be resumed."""

import json
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import sottovoce
from sottovoce.data import DataSet, Declaration, load
from sottovoce.errors import UsageError

AT_ONCE = os.cpu_count() or 1
"""Maximum number of processes that execute runs at the same time."""

_TIMEOUT_SECONDS = 10.0  # seconds to wait for a Dask scheduler

_GUARANTEE = ("epsilon", "delta", "status", "spent_epsilon_max", "neighbouring", "unit", "reason", "mechanism")
Keys = Mapping[str, Any]
Outcome = dict[str, Any]


def digest(keys: Keys) -> str:
    """Return a digest of a run's keys and the program version, which identifies the run in later calls."""
    text = json.dumps({**keys, "version": sottovoce.__version__}, sort_keys=True, default=str)
    return sha256(text.encode()).hexdigest()[:32]


def read_outcomes(file: Path) -> dict[str, Outcome]:
    """Read the outcomes of earlier calls, by run digest, skipping malformed lines such as a truncated last one."""
    outcomes: dict[str, Outcome] = {}
    if not file.exists():
        return outcomes
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            outcome = json.loads(line)
            outcomes[outcome.pop("run")] = outcome
        except (ValueError, KeyError):
            continue
    return outcomes


def guarantee(report: Mapping[str, Any]) -> dict[str, Any]:
    """Extract the privacy guarantee from a report."""
    return {name: report["privacy"][name] for name in _GUARANTEE}


@lru_cache(maxsize=1)
def load_cached(source: str, declared: Declaration) -> DataSet:
    """Load a data set and cache it, because consecutive runs in a process often use the same one."""
    return load(source, declared)


def run_remaining(
    batches: Iterable[Mapping[str, Keys]],
    job: Callable[[list[Keys]], list[Outcome]],
    file: Path,
    pool: Executor,
) -> Iterator[tuple[str, Outcome, float]]:
    """Execute runs, save each outcome as soon as its batch ends, and yield its digest, outcome and elapsed minutes.

    Args:
        batches: the keys of the runs still to execute, by digest, in batches that a process executes together.
        job: executes the runs of one batch in the process that calls it, and returns their outcomes in order.
        file: the path of a file with one JSON line per run, created if it does not exist.
        pool: the pool that executes the runs.
    """
    started = time.monotonic()
    with file.open("a", encoding="utf-8") as lines:
        lines.write("\n")  # in case the last line is truncated
        futures = {pool.submit(job, list(batch.values())): list(batch) for batch in batches}
        try:
            for future in as_completed(futures):
                outcomes = dict(zip(futures[future], future.result(), strict=True))
                lines.writelines(json.dumps({"run": key, **outcome}) + "\n" for key, outcome in outcomes.items())
                lines.flush()
                for key, outcome in outcomes.items():
                    yield key, outcome, (time.monotonic() - started) / 60
        finally:
            for future in futures:
                future.cancel()


@contextmanager
def processes(maximum: int) -> Iterator[Executor]:
    """Provide a pool with one process per processor, up to `maximum`; they end even if the caller is killed."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(maximum, AT_ONCE), mp_context=context, initializer=end_with_parent)
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def cluster(address: str) -> Iterator[Executor]:
    """Provide the workers of a Dask cluster, which must have this version of the package installed.

    Args:
        address: the address of the cluster's scheduler, `dask://HOST:PORT`.

    Raises:
        UsageError: if Dask is not installed, the address is malformed, or no scheduler answers at the address.
    """
    host = address.removeprefix("dask://")
    if not address.startswith("dask://") or not host.rpartition(":")[2].isdigit():
        raise UsageError(f"--on {address}: write dask://HOST:PORT, where HOST:PORT is the address of a Dask scheduler")
    try:
        from distributed import Client
    except ImportError:
        raise UsageError(f"--on {address}: this option requires Dask; install sottovoce[dask]") from None
    try:
        client: Any = cast(Any, Client)(f"tcp://{host}", timeout=_TIMEOUT_SECONDS)
    except OSError as error:
        raise UsageError(
            f"--on {address}: no scheduler answers at this address ({error}); start `dask scheduler`"
        ) from None
    try:
        yield client.get_executor(pure=False)
    finally:
        client.close()


def end_with_parent() -> None:
    """Start a thread that ends this process when its parent ends."""
    parent = multiprocessing.parent_process()
    if parent is not None:

        def watch() -> None:
            parent.join()
            os._exit(1)

        threading.Thread(target=watch, daemon=True, name="parent").start()
