"""Kill a vault at random moments, many times, and report the violations.

Usage: vault_driver.py DIRECTORY SEED LIVES; prints one JSON document. Every life is a fork of this process, which
opens no ledger before it forks and has no second thread. A child reports (query id, digest of the released bytes) on
a pipe once `answer` has returned, which is when a learner could send them.

How long an answer takes depends on the disk, the machine and its load. The deadline for a kill therefore adapts to the
previous lives, so that about every second life gives an answer. If LIVES lives produce too few releases or unfinished
charges, the driver plays more.
"""

import hashlib
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np
from sottovoce.data import Records
from sottovoce.kernels.softmax import Softmax
from sottovoce.privacy.api import Query, Refused
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.gradients import GradientTerms
from sottovoce.privacy.vault import Budget, Ledger, OperatingSystemNoise, Spending, Vault

OWNER = "meter-17"
EPSILON = 2.0
BUDGET = Budget(EPSILON, 1e-5, "record", "add-remove")
RELEASES = 300
SLOTS = RELEASES + 40
KERNEL = Softmax(4, 2)
REPORT = 64  # bytes: a query's id and a digest
ENOUGH_RELEASES, ENOUGH_UNFINISHED = 30, 3
MAX = 10  # times the lives asked for
READY = b"\0" * REPORT


def main() -> None:
    directory, seed, lives = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    path, rng = directory / "ledger.db", random.Random(seed)
    Ledger.create(path, OWNER, BUDGET)
    # Builds the sampler's table once, before forking.
    make_vault(Ledger.in_memory(OWNER, BUDGET)).answer(make_query(0))
    violations: list[str] = []
    observed: dict[bytes, bytes] = {}
    killed = unfinished = life = 0
    startup_seconds, deadline = 0.010, 0.002  # seconds to readiness, and from there to death at the latest
    while life < lives or (life < MAX * lives and (len(observed) < ENOUGH_RELEASES or unfinished < ENOUGH_UNFINISHED)):
        if life % 4 == 0:
            child_reports, was_alive, _ = run_life(path, rng, 1.2 * startup_seconds + deadline, from_the_start=True)
        else:
            child_reports, was_alive, startup_seconds = run_life(path, rng, deadline, from_the_start=False)
            deadline = min(1.0, deadline * (1.2 if not child_reports else 0.8))
        killed += was_alive
        life += 1
        for query, digest in child_reports:
            if observed.setdefault(query, digest) != digest:
                violations.append(f"life {life}: query {query.hex()} was released twice, with different bytes")
        spending = read_spending(path)
        unfinished = max(unfinished, spending.charges - spending.releases)
        if not spending.charges >= spending.releases >= len(observed):
            violations.append(f"life {life}: {spending} but {len(observed)} releases were seen")
        if spending.epsilon > EPSILON:
            violations.append(f"life {life}: {spending} is above the budget")
    violations += run_last_life(path, observed)
    summary = {"lives": life, "killed": killed, "unfinished": unfinished, "observed": len(observed)}
    json.dump({"wrong": violations, **summary}, sys.stdout)


def read_spending(path: Path) -> Spending:
    """Read the ledger's spending, which is possible at any time."""
    reader = Ledger.read(path)
    spending = reader.spending()
    reader.close()
    return spending


def make_query(slot: int) -> Query:
    return Query("clipd2p", "gradient", slot, np.zeros(KERNEL.size))


def make_vault(ledger: Ledger) -> Vault:
    rng = np.random.default_rng(1)
    return build(
        records=Records(rng.normal(size=(20, 4)), rng.integers(0, 2, 20)),
        kernel=KERNEL,
        terms=GradientTerms("clipd2p", RELEASES, 1.0),
        ledger=ledger,
        noise=OperatingSystemNoise(),
    )


def run_life(
    path: Path, rng: random.Random, deadline: float, *, from_the_start: bool
) -> tuple[list[tuple[bytes, bytes]], bool, float]:
    """Fork a child, let it answer, and kill it within some seconds of its start or of its readiness.

    Returns:
        the child's reports; whether it was still alive; how long it took to be ready, if that was waited for.
    """
    reading, writing = os.pipe()
    began = time.monotonic()
    slot_rng = random.Random(rng.random())
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        answer_until_killed(path, writing, slot_rng)
    os.close(writing)
    received = b""
    if not from_the_start:
        received = os.read(reading, REPORT)
    ready = time.monotonic() - began
    time.sleep(rng.uniform(0, deadline))
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    while part := os.read(reading, 1 << 16):
        received += part
    os.close(reading)
    reports = [received[i : i + REPORT] for i in range(0, len(received) - REPORT + 1, REPORT)]
    return [(report[:32], report[32:]) for report in reports if report != READY], os.WIFSIGNALED(status), ready


def answer_until_killed(path: Path, writing: int, slot_rng: random.Random) -> None:
    """Answer queries in random order until killed. Never returns."""
    try:
        vault = make_vault(Ledger.open(path, OWNER, BUDGET))
        os.write(writing, READY)
        while True:
            answer = vault.answer(make_query(slot_rng.randrange(SLOTS)))
            if not isinstance(answer, Refused):
                os.write(writing, answer.query_id + hashlib.sha256(answer.value.tobytes()).digest())
    finally:
        os._exit(1)  # the child must never continue as the parent


def run_last_life(path: Path, observed: dict[bytes, bytes]) -> list[str]:
    """Repeat every query until the budget is spent."""
    violations = []
    vault = make_vault(Ledger.open(path, OWNER, BUDGET))
    refused = 0
    for slot in range(SLOTS):
        answer = vault.answer(make_query(slot))
        if isinstance(answer, Refused):
            refused += 1
        elif observed.get(answer.query_id, digest := hashlib.sha256(answer.value.tobytes()).digest()) != digest:
            violations.append(f"in the end: slot {slot} differs from the bytes seen before")
    spending = vault.spending()
    vault.close()
    if not spending.charges == spending.releases == SLOTS - refused == RELEASES:
        violations.append(f"in the end: {spending}, {refused} of {SLOTS} refused")
    if not 0.99 * EPSILON <= spending.epsilon <= EPSILON:
        violations.append(f"in the end: {spending} of ε = {EPSILON}")
    return violations


if __name__ == "__main__":
    main()
