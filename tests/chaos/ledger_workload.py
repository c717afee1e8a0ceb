"""Device's use of its ledger, recorded down to the bytes that it writes.

Usage: ledger_workload.py DIRECTORY LOG. The ledger is created and used in DIRECTORY. LOG receives every operation on
its files and, between them, marks with the answered queries and their releases.
"""

import os
import sys
from pathlib import Path

import numpy as np
from sottovoce.data import Records
from sottovoce.kernels.softmax import Softmax
from sottovoce.privacy.api import Query, Refused
from sottovoce.privacy.perturbation import scheme
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.gradients import GradientTerms
from sottovoce.privacy.terms.records import RecordTerms
from sottovoce.privacy.vault import Budget, Ledger, OperatingSystemNoise, Vault

from tests.support.disk_log import save
from tests.support.disk_recorder import DiskRecorder

OWNER = "meter-17"
EPSILON = 2.0
BUDGET = Budget(EPSILON, 1e-5, "record", "replace-one")
LEDGER = "ledger.db"
KERNEL = Softmax(4000, 2)  # a release of sixteen pages
RELEASES = 64  # enough for SQLite to checkpoint its log of 1,000 pages by itself, and to write it again
ROUNDS = RELEASES + 20
RECORDS, RECORD_EPSILON = 6, 0.25
CREATED, ANSWERED, CLOSED = "created", "answered", "closed"


def main() -> None:
    directory, log = Path(sys.argv[1]), Path(sys.argv[2])
    sys.unraisablehook = _end_process
    recorder = DiskRecorder(directory)
    Ledger.create(directory / LEDGER, OWNER, BUDGET)
    recorder.mark(CREATED)
    for make_vault, queries in (
        (record_vault, [record_query(slot) for slot in range(RECORDS)]),
        (gradient_vault, [gradient_query(slot) for slot in range(ROUNDS)]),
        (gradient_vault, [gradient_query(slot) for slot in range(0, ROUNDS, 50)]),
    ):
        vault = make_vault(Ledger.open(directory / LEDGER, OWNER, BUDGET))
        for query in queries:
            answer = vault.answer(query)
            if not isinstance(answer, Refused):
                recorder.mark(ANSWERED, answer.query_id + answer.value.tobytes())
        vault.close()
        recorder.mark(CLOSED)
    save(recorder.operations, log)


def gradient_query(slot: int) -> Query:
    """Return a gradient query at an arbitrary point."""
    return Query("clipd2p", "gradient", slot, np.zeros(KERNEL.size))


def record_query(slot: int) -> Query:
    """Return a record query."""
    return Query("golf", "record", slot, np.zeros(0))


def gradient_vault(ledger: Ledger) -> Vault:
    """Make the vault of a learner that sums gradients."""
    return build(
        records=_records(),
        kernel=KERNEL,
        terms=GradientTerms("clipd2p", RELEASES, 1.0),
        ledger=ledger,
        noise=OperatingSystemNoise(),
    )


def record_vault(ledger: Ledger) -> Vault:
    """Make the vault of a learner that publishes records, over the same records."""
    return build(
        records=_records(),
        kernel=None,
        terms=RecordTerms("golf", scheme("laplace", 4000, 2, RECORD_EPSILON), "declared"),
        ledger=ledger,
        noise=OperatingSystemNoise(),
    )


def _records() -> Records:
    rng = np.random.default_rng(1)
    return Records(rng.normal(size=(RECORDS, 4000)), rng.integers(0, 2, RECORDS))


def _end_process(problem: "sys.UnraisableHookArgs") -> None:
    """End the process on an error inside SQLite's calls, which nothing raises: later records could not be trusted."""
    print(f"the recorder failed: {problem.exc_value!r}", file=sys.stderr, flush=True)
    os._exit(3)


if __name__ == "__main__":
    main()
