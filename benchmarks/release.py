"""Benchmark noise sampling, a whole release and a ledger charge, each against a floor measured in the same run.

python benchmarks/release.py [--smoke]

The program creates its ledgers and the files for the floors in the current directory, so run it on the disk that you
want to measure. Two ratios have limits; except with --smoke, the program exits with status 1 if either ratio exceeds
its limit.
"""

import argparse
import hashlib
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import numpy as np
from sottovoce.data import Records
from sottovoce.kernels.softmax import Softmax
from sottovoce.privacy.api import Query, Refused
from sottovoce.privacy.mechanisms.record_mechanism import RecordMechanism
from sottovoce.privacy.mechanisms.samplers.discrete_gaussian import DiscreteGaussianSampler
from sottovoce.privacy.perturbation import scheme
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.gradients import GradientTerms
from sottovoce.privacy.vault import Budget, Ledger, OperatingSystemNoise, Vault, calibrate
from sottovoce_lab.simulator.simulated_records import simulate

RECORDS, CLASSES = 120, 10
SIZES = (650, 100_000)
BUDGET = Budget(2.0, 1e-5, "record", "add-remove")
LARGE, NOISE_LIMIT, CHARGE_LIMIT = 100_000, 20.0, 4.0
# Number of charges whose bytes are counted; SQLite copies its log to the database every few hundred charges.
METERED_CHARGES = 1000
MINUTES = 24 * 60  # per day
RELEASES = 4096  # number of releases over which the budget is spread; no benchmark makes more


def time_call(function: Callable[[], object], clock: Callable[[], float]) -> float:
    """Return the duration of one call in seconds, on this clock."""
    started = clock()
    function()
    return clock() - started


def compare(
    name: str,
    function: Callable[[], object],
    floor: Callable[[], object],
    floor_name: str,
    repetitions: int,
    *,
    clock: Callable[[], float] = time.perf_counter,
    limit: float = math.inf,
) -> bool:
    """Print one line of the table, with the medians of both functions.

    The functions are called alternately, so disturbances affect both equally.

    Returns:
        Whether the ratio is within the limit; True without a limit.
    """
    function()
    floor()
    durations = np.array([(time_call(function, clock), time_call(floor, clock)) for _ in range(repetitions)])
    median, floor_median = np.median(durations, axis=0)
    within = bool(median <= limit * floor_median)
    verdict = "" if math.isinf(limit) else f"; limit {limit:g}: {'pass' if within else 'FAIL'}"
    print(
        f"{name:36} {median * 1e6:12.0f} µs {floor_median * 1e6:12.0f} µs {median / floor_median:8.1f}  "
        f"{floor_name}{verdict}"
    )
    return within


def compare_noise(size: int, repetitions: int) -> bool:
    """Compare an exact discrete Gaussian vector with a normal vector from numpy; return whether the limit is met.

    The comparison uses CPU time, because on a busy machine only the longer of the two calls is interrupted.
    """
    mechanism = calibrate(clip=0.5, size=size, releases=48, epsilon=2.0, delta=1e-5, neighbouring="add-remove")
    sampler = DiscreteGaussianSampler(mechanism.sigma, OperatingSystemNoise())
    generator = np.random.default_rng()
    return compare(
        f"noise, {size:,} coordinates",
        lambda: sampler.draw(size),
        lambda: generator.normal(size=size),
        "numpy Generator.normal",
        repetitions,
        clock=time.process_time,
        limit=NOISE_LIMIT if size >= LARGE else math.inf,
    )


def make_records(size: int) -> Records:
    """Return random records for a softmax model with `size` parameters."""
    generator = np.random.default_rng(0)
    return Records(generator.normal(size=(RECORDS, size // CLASSES)), generator.integers(0, CLASSES, RECORDS))


def query_sender(vault: Vault, size: int) -> Callable[[], None]:
    """Return a function that sends the vault a schedule's next query, always at the same point."""
    slots, point = count(), np.zeros(size)

    def answer() -> None:
        if isinstance(vault.answer(Query("clipd2p", "gradient", next(slots), point)), Refused):
            raise RuntimeError("the vault refused the query")

    return answer


def open_ledger(kind: str, path: Path) -> Ledger:
    """Create and open a ledger, on the disk or in memory."""
    if kind == "memory":
        return Ledger.in_memory("bench", BUDGET)
    Ledger.create(path, "bench", BUDGET)
    return Ledger.open(path, "bench", BUDGET)


def compare_release(size: int, repetitions: int, directory: Path) -> None:
    """Compare a whole release with a plain gradient sum with numpy noise and, if on the disk, two durable appends."""
    device_records, kernel = make_records(size), Softmax(size // CLASSES, CLASSES)
    generator = np.random.default_rng()
    weights = np.zeros((size // CLASSES, CLASSES))

    with (directory / f"append-{size}").open("ab", buffering=0) as file:

        def append() -> None:
            file.write(bytes(64))
            os.fsync(file.fileno())

        def plain_release() -> None:
            error = np.exp(device_records.features @ weights)
            error /= error.sum(axis=1, keepdims=True)
            error[np.arange(RECORDS), device_records.labels] -= 1
            (device_records.features.T @ error).ravel() + generator.normal(size=size)

        def plain_durable_release() -> None:
            append()
            plain_release()
            append()

        for kind, floor, floor_name in (
            ("memory", plain_release, "numpy: unclipped gradient sum + normal"),
            ("disk", plain_durable_release, "the same and two append 64 B + fsync"),
        ):
            vault = build(
                records=device_records,
                kernel=kernel,
                terms=GradientTerms(learner="clipd2p", releases=RELEASES, clip=0.5),
                ledger=open_ledger(kind, directory / f"{size}.db"),
                noise=OperatingSystemNoise(),
            )
            compare(f"release, {size:,}, ledger: {kind}", query_sender(vault, size), floor, floor_name, repetitions)
            vault.close()


def compare_record(name: str, features: int, classes: int, repetitions: int) -> None:
    """Compare the exact release of one record with a floating-point sample of the same distribution."""
    record_scheme = scheme(name, features, classes, 1.0)
    mechanism, noise, generator = RecordMechanism(record_scheme), OperatingSystemNoise(), np.random.default_rng()
    single_record = Records(generator.normal(size=(1, features)), np.array([1]))
    compare(
        f"record, {name}, {features} × {classes}",
        lambda: mechanism.apply(single_record, noise),
        lambda: simulate(record_scheme, single_record.features, single_record.labels, generator),
        "the same distribution in floats",
        repetitions,
    )


def read_bytes_written() -> tuple[int, int]:
    """Return how many bytes this process has written so far, and how many bytes of file pages it has changed."""
    counters = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counters["wchar"]), int(counters["write_bytes"])


def compare_charge(repetitions: int, directory: Path) -> bool:
    """Compare a durable charge with a durable append of the same size; return whether the limit is met."""
    path = directory / "charge.db"
    mechanism = calibrate(clip=0.5, size=650, releases=RELEASES, epsilon=2.0, delta=1e-5, neighbouring="add-remove")
    Ledger.create(path, "bench", BUDGET)
    ledger = Ledger.open(path, "bench", BUDGET)
    numbers = count()

    def pay() -> None:
        if not ledger.charge(hashlib.sha256(next(numbers).to_bytes(8, "big")).digest(), mechanism.event):
            raise RuntimeError("the budget is spent")

    pay()
    bytes_at_start = np.array(read_bytes_written())
    for _ in range(METERED_CHARGES):
        pay()
    written_per_charge, changed_per_charge = (np.array(read_bytes_written()) - bytes_at_start) / METERED_CHARGES
    print(f"a charge writes {written_per_charge:,.0f} bytes and changes {changed_per_charge:,.0f} bytes of file pages;")
    print(f"with one charge per minute, this amounts to {changed_per_charge * MINUTES / 2**20:.1f} MiB per day")
    payload = bytes(round(written_per_charge))

    with (directory / "append").open("ab", buffering=0) as file:

        def append() -> None:
            file.write(payload)
            os.fsync(file.fileno())

        floor_name = f"append {len(payload):,} B + fsync"
        within = compare("charge", pay, append, floor_name, repetitions, limit=CHARGE_LIMIT)
    ledger.close()
    return within


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="run with few repetitions")
    smoke = parser.parse_args().smoke
    repetitions = 5 if smoke else 200
    print(f"{'':36} {'measured':>15} {'floor':>15} {'ratio':>8}")
    with tempfile.TemporaryDirectory(prefix="bench-", dir=Path.cwd()) as directory:
        within = [compare_noise(size, repetitions) for size in SIZES]
        for size in SIZES:
            compare_release(size, repetitions if size < 10_000 else max(3, repetitions // 20), Path(directory))
        for name, features, classes in (("laplace", 57, 2), ("privunit", 57, 2), ("krr-privunit", 785, 10)):
            compare_record(name, features, classes, repetitions)
        within.append(compare_charge(repetitions, Path(directory)))
    return 0 if smoke or all(within) else 1


if __name__ == "__main__":
    sys.exit(main())
