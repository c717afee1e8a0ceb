"""Power cut at every write and every fsync of a ledger: releases remain charged, and no budget is exceeded.

A device's life is recorded in a process of its own, down to the bytes that SQLite writes and the moments at which it
waits for the disk. From the record follow the states in which a power cut may have left the disk: see crash_disk.py.
Each state is opened as the agent would open it.
"""

import random
import shutil
import subprocess
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sottovoce.door import Query, Refused
from sottovoce.errors import LedgerError
from sottovoce.schema import PAGE_BYTES
from sottovoce.vault import Ledger, Spending, Vault

from tests.chaos import ledger_workload as life
from tests.support.crash_disk import EVERYTHING, NOTHING, Crash, CrashDisk, Image
from tests.support.disk_log import Operation, load
from tests.support.memory import memory_directory

SEED = 20_261_121
ENOUGH = 2_000  # power cuts
OTHERS = 0.02  # how many of those that are neither "everything kept" nor "everything lost" are tried
FRAME = PAGE_BYTES + 24
MIDDLE, SPARSE = range(200 * FRAME, 980 * FRAME), 0.03  # places in the log; SQLite writes it again after page 1,000
LIVED_ON = 80  # after this many power cuts each time the device continues until its budget is spent
LOOKED_UP = 6  # releases, among them the last, that are looked up after each of the others

Identity = tuple[tuple[str, int], ...]  # of an image: its files' names and checksums


@dataclass(slots=True)
class Owed:
    """The obligations of a ledger: what has left the device, and whether the ledger was made."""

    created: bool = False
    released: dict[bytes, bytes] = field(default_factory=dict)

    def remark(self, operation: Operation) -> None:
        """Note a remark on what the device did."""
        if operation.name == life.CREATED:
            self.created = True
        elif operation.name == life.ANSWERED:
            self.released.setdefault(operation.data[:32], operation.data[32:])


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> list[Operation]:
    """Record the whole life of a device."""
    directory, log = tmp_path_factory.mktemp("device"), tmp_path_factory.mktemp("log") / "log"
    run = subprocess.run(
        [sys.executable, "-m", "tests.chaos.ledger_workload", directory, log],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert run.returncode == 0, run.stderr
    operations = load(log)
    disk = CrashDisk(random.Random(SEED))
    for operation in operations:
        disk.do(operation)
    found = {path.name: path.read_bytes() for path in directory.iterdir() if path.suffix != ".lock"}
    assert disk.whole() == found, "something was written that the recorder did not see"
    return operations


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    with memory_directory(tmp_path) as directory:
        yield directory


def power_cuts(operations: list[Operation]) -> Iterator[tuple[Crash, Owed]]:
    """At every operation with everything that was not yet synced, and without; others at random.

    In the middle of a long log, where one commit is like the next, at one of this many operations.
    """
    rng, owed = random.Random(SEED), Owed()
    disk, lost = CrashDisk(rng), (0, 0)
    for operation in operations:
        if operation.kind == "mark":
            owed.remark(operation)
            continue
        if operation.place not in MIDDLE or rng.random() < SPARSE:
            for crash in disk.crashes(operation):
                if crash.how == NOTHING:
                    lost, before = (disk.syncs, len(owed.released)), lost
                    chosen = lost != before
                else:
                    chosen = crash.how == EVERYTHING or not owed.created or rng.random() < OTHERS
                if chosen:
                    yield crash, owed
        disk.do(operation)


@pytest.mark.timeout(1200)  # a minute on a machine that has nothing else to do
def test_no_power_cut_loses_a_charge(recorded: list[Operation], memory: Path) -> None:
    tried: set[tuple[int, Identity]] = set()
    rng, lived_on, refused = random.Random(SEED), 0, 0
    for crash, owed in power_cuts(recorded):
        image = crash.image()
        contents = tuple(sorted((name, zlib.adler32(content)) for name, content in image.items()))
        cut = (len(owed.released), contents)  # what is harmless now is a loss once the release has left
        if cut in tried:
            continue
        tried.add(cut)
        try:
            if not owed.created and life.LEDGER not in image:
                _is_missed_and_made_again(image, memory)
                refused += 1
            elif len(tried) % LIVED_ON == 0:
                _lives_on(image, memory, owed)
                lived_on += 1
            else:
                _keeps(image, memory, owed, rng)
        except (AssertionError, LedgerError) as error:
            error.add_note(f"power cut {len(tried)} after {len(owed.released)} releases: {crash.how}")
            raise
    images = {contents for _, contents in tried}
    print(f"{len(images)} power cuts, {refused} of them before there was a ledger; {lived_on} were lived on from")
    assert len(images) >= ENOUGH
    assert lived_on > 20
    assert refused > 20


def _restored(image: Image, directory: Path) -> Path:
    """Write this image to an otherwise empty directory, and return the ledger's path."""
    home = directory / "home"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    for name, content in image.items():
        (home / name).write_bytes(content)
    return home / life.LEDGER


def _is_missed_and_made_again(image: Image, directory: Path) -> None:
    """Check that a ledger that was never made is reported missing, and can be made over the remains of an attempt."""
    path = _restored(image, directory)
    with pytest.raises(LedgerError, match=r"the privacy ledger is missing.*Restore this exact file") as caught:
        Ledger.open(path, life.OWNER, life.BUDGET)
    assert str(path) in str(caught.value)
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == image
    Ledger.create(path, life.OWNER, life.BUDGET)
    Ledger.open(path, life.OWNER, life.BUDGET).close()


def _keeps(image: Image, directory: Path, owed: Owed, rng: random.Random) -> None:
    """Check that what was released is stored and charged, and at most one charge of what was in progress."""
    ledger = Ledger.open(_restored(image, directory), life.OWNER, life.BUDGET)
    try:
        spending, left = ledger.spending(), len(owed.released)
        assert left <= spending.releases <= spending.charges <= left + 1
        assert spending.epsilon <= life.EPSILON
        queries = list(owed.released)
        for query in {*queries[-LOOKED_UP // 2 :], *rng.sample(queries, min(left, LOOKED_UP // 2))}:
            stored = ledger.stored_release(query)
            assert stored is not None, "a release that left the device is not in its ledger"
            assert stored.value == owed.released[query]
    finally:
        ledger.close()


def _lives_on(image: Image, directory: Path, owed: Owed) -> None:
    """Check that it repeats its answers when asked for all again, and that all it ever answered is within budget."""
    path, left = _restored(image, directory), dict(owed.released)
    paid = Ledger.in_memory(life.OWNER, life.BUDGET)
    refused = 0
    for made, queries in (
        (life.record_vault, [life.record_question(slot) for slot in range(life.RECORDS)]),
        (life.gradient_vault, [life.question(slot) for slot in range(life.ROUNDS)]),
    ):
        vault, everything = made(Ledger.open(path, life.OWNER, life.BUDGET)), made(paid)
        for query in queries:
            answer = vault.answer(query)
            if isinstance(answer, Refused):
                assert query.id not in left
                refused += 1
            else:
                said = answer.value.tobytes()
                assert left.setdefault(query.id, said) == said, "a question was answered in two ways"
                assert _allowed(everything, query), "more left the device than its budget pays for"
        vault.close()
    spending = _spending(path)
    assert spending.charges == spending.releases == len(left)
    assert spending.epsilon <= life.EPSILON
    assert refused > 0
    paid.close()


def _spending(path: Path) -> Spending:
    reader = Ledger.read(path)
    try:
        return reader.spending()
    finally:
        reader.close()


def _allowed(everything: Vault, query: Query) -> bool:
    """Whether a ledger that never lost anything would have paid for this query, too."""
    return not isinstance(everything.answer(query), Refused)
