"""Kill a vault at random moments, many times, and write down what is wrong afterwards.

Usage: vault_driver.py DIRECTORY SEED LIVES; prints one JSON document. Every life is a fork of this process, which
opens no ledger before it forks and has no second thread. A child reports (query id, digest of the released bytes) on
a pipe once `answer` has returned, which is when a learner could send them.

How long an answer takes depends on the disk, the machine and whatever else runs on it, so the time within which a death
falls follows what the lives before it got done: an answer in every other life or so. There are more lives than asked
for when these have not been enough to try what is to be tried.
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
from sottovoce.door import Query, Refused
from sottovoce.kernels.softmax import Softmax
from sottovoce.vault import Budget, Ledger, OperatingSystemNoise, Spending, Vault, build
from sottovoce.vault.terms.gradients import GradientTerms

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
    vault_over(Ledger.in_memory(OWNER, BUDGET)).answer(question(0))  # the sampler's table is made once, before forking
    wrong: list[str] = []
    observed: dict[bytes, bytes] = {}
    killed = unfinished = life = 0
    opening, within = 0.010, 0.002  # seconds to readiness, and from there to death at the latest
    while life < lives or (life < MAX * lives and (len(observed) < ENOUGH_RELEASES or unfinished < ENOUGH_UNFINISHED)):
        if life % 4 == 0:
            fragments, alive, _ = one_life(path, rng, 1.2 * opening + within, from_the_start=True)
        else:
            fragments, alive, opening = one_life(path, rng, within, from_the_start=False)
            within = min(1.0, within * (1.2 if not fragments else 0.8))
        killed += alive
        life += 1
        for query, digest in fragments:
            if observed.setdefault(query, digest) != digest:
                wrong.append(f"life {life}: query {query.hex()} was released twice, with different bytes")
        spending = read(path)
        unfinished = max(unfinished, spending.charges - spending.releases)
        if not spending.charges >= spending.releases >= len(observed):
            wrong.append(f"life {life}: {spending} but {len(observed)} releases were seen")
        if spending.epsilon > EPSILON:
            wrong.append(f"life {life}: {spending} is above the budget")
    wrong += last_life(path, observed)
    found = {"lives": life, "killed": killed, "unfinished": unfinished, "observed": len(observed)}
    json.dump({"wrong": wrong, **found}, sys.stdout)


def read(path: Path) -> Spending:
    """Read the spending from the ledger, as a reader may at any moment."""
    reader = Ledger.read(path)
    spending = reader.spending()
    reader.close()
    return spending


def question(slot: int) -> Query:
    return Query("clipd2p", "gradient", slot, np.zeros(KERNEL.size))


def vault_over(ledger: Ledger) -> Vault:
    rng = np.random.default_rng(1)
    return build(
        records=Records(rng.normal(size=(20, 4)), rng.integers(0, 2, 20)),
        kernel=KERNEL,
        terms=GradientTerms("clipd2p", RELEASES, 1.0),
        ledger=ledger,
        noise=OperatingSystemNoise(),
    )


def one_life(
    path: Path, rng: random.Random, within: float, *, from_the_start: bool
) -> tuple[list[tuple[bytes, bytes]], bool, float]:
    """Fork a child, let it answer, and kill it within some seconds of its start or of its readiness.

    Returns:
        the child's reports; whether it was still alive; how long it took to be ready, if that was waited for.
    """
    reading, writing = os.pipe()
    began = time.monotonic()
    order = random.Random(rng.random())
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        live(path, writing, order)
    os.close(writing)
    received = b""
    if not from_the_start:
        received = os.read(reading, REPORT)
    ready = time.monotonic() - began
    time.sleep(rng.uniform(0, within))
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    while part := os.read(reading, 1 << 16):
        received += part
    os.close(reading)
    reports = [received[i : i + REPORT] for i in range(0, len(received) - REPORT + 1, REPORT)]
    return [(report[:32], report[32:]) for report in reports if report != READY], os.WIFSIGNALED(status), ready


def live(path: Path, writing: int, order: random.Random) -> None:
    """Answer questions in random order until killed. Never returns."""
    try:
        vault = vault_over(Ledger.open(path, OWNER, BUDGET))
        os.write(writing, READY)
        while True:
            answer = vault.answer(question(order.randrange(SLOTS)))
            if not isinstance(answer, Refused):
                os.write(writing, answer.query_id + hashlib.sha256(answer.value.tobytes()).digest())
    finally:
        os._exit(1)  # whatever happened, the child must not continue as the parent


def last_life(path: Path, observed: dict[bytes, bytes]) -> list[str]:
    """Ask every question once more, until the budget is gone."""
    wrong = []
    vault = vault_over(Ledger.open(path, OWNER, BUDGET))
    refused = 0
    for slot in range(SLOTS):
        answer = vault.answer(question(slot))
        if isinstance(answer, Refused):
            refused += 1
        elif observed.get(answer.query_id, digest := hashlib.sha256(answer.value.tobytes()).digest()) != digest:
            wrong.append(f"in the end: slot {slot} has other bytes than were seen before")
    spending = vault.spending()
    vault.close()
    if not spending.charges == spending.releases == SLOTS - refused == RELEASES:
        wrong.append(f"in the end: {spending}, {refused} of {SLOTS} refused")
    if not 0.99 * EPSILON <= spending.epsilon <= EPSILON:
        wrong.append(f"in the end: {spending} of ε = {EPSILON}")
    return wrong


if __name__ == "__main__":
    main()
