"""Power cut at any write and at every fsync of a ledger: releases remain charged, and no budget is exceeded.

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
from sottovoce.errors import LedgerError
from sottovoce.privacy.api import Query, Refused
from sottovoce.privacy.vault import Ledger, Spending, Vault
from sottovoce.storage.schema import PAGE_BYTES

from tests.chaos import ledger_workload as life
from tests.support.crash_disk import EVERYTHING, NOTHING, Crash, CrashDisk, Image
from tests.support.disk_log import Operation, load
from tests.support.memory import memory_directory

pytestmark = pytest.mark.process

SEED = 20_261_121
MINIMUM_CUTS = 2_000  # power cuts
SAMPLED_SHARE = 0.02  # of the power cuts that keep part of the unsynced data
FRAME = PAGE_BYTES + 24
MIDDLE, SPARSE = range(200 * FRAME, 980 * FRAME), 0.03  # places in the log; SQLite writes it again after page 1,000
CONTINUE_EVERY = 80  # at every n-th power cut, the device continues until its budget is spent
RELEASES_CHECKED = 6  # number of releases, including the latest, that are looked up after each of the other power cuts

Identity = tuple[tuple[str, int], ...]  # of an image: its files' names and checksums


@dataclass(slots=True)
class Obligations:
    """Obligations of a ledger: everything that has left the device, and whether the ledger was created."""

    created: bool = False
    released: dict[bytes, bytes] = field(default_factory=dict)

    def record_mark(self, operation: Operation) -> None:
        """Record a mark that the device left in the log."""
        if operation.name == life.CREATED:
            self.created = True
        elif operation.name == life.ANSWERED:
            self.released.setdefault(operation.data[:32], operation.data[32:])


@pytest.fixture(scope="module")
def recorded_operations(tmp_path_factory: pytest.TempPathFactory) -> list[Operation]:
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
    # The count of written bytes is no part of a ledger: it is claimed ahead, so that a crash can only overstate it.
    found = {path.name: path.read_bytes() for path in directory.iterdir() if path.suffix not in (".lock", ".written")}
    assert disk.whole() == found, "the recorder saw every write"
    return operations


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    with memory_directory(tmp_path) as directory:
        yield directory


def power_cuts(operations: list[Operation], share: float) -> Iterator[tuple[Crash, Obligations]]:
    """Yield power cuts with all unsynced data lost after every fsync, and others with some or all of it kept.

    In the middle of a long log, where all commits are alike, only a sample of the operations is used.

    Args:
        operations: everything that the device wrote.
        share: share of the power cuts with all unsynced data kept, or at a moment without a ledger, that are used.
    """
    rng, obligations = random.Random(SEED), Obligations()
    disk, lost = CrashDisk(rng), (0, 0)
    for operation in operations:
        if operation.kind == "mark":
            obligations.record_mark(operation)
            continue
        if operation.offset not in MIDDLE or rng.random() < SPARSE:
            for crash in disk.crashes(operation):
                if crash.description == NOTHING:
                    lost, before = (disk.syncs, len(obligations.released)), lost
                    chosen = lost != before
                else:
                    is_frequent = crash.description == EVERYTHING or not obligations.created
                    chosen = rng.random() < (share if is_frequent else SAMPLED_SHARE)
                if chosen:
                    yield crash, obligations
        disk.do(operation)


@pytest.mark.timeout(1200)  # 75 seconds on two idle cores for the smaller share
@pytest.mark.parametrize("share", [0.3, pytest.param(1.0, marks=pytest.mark.soak)])
def test_no_power_cut_loses_a_charge(recorded_operations: list[Operation], memory: Path, share: float) -> None:
    tried_cuts: set[tuple[int, Identity]] = set()
    rng, continued, refused = random.Random(SEED), 0, 0
    for crash, obligations in power_cuts(recorded_operations, share):
        image = crash.image()
        contents = tuple(sorted((name, zlib.adler32(content)) for name, content in image.items()))
        cut = (
            len(obligations.released),
            contents,
        )  # the same image may be harmless before a release leaves the device, and a loss afterwards
        if cut in tried_cuts:
            continue
        tried_cuts.add(cut)
        try:
            if not obligations.created and life.LEDGER not in image:
                _check_missing_and_recreated(image, memory)
                refused += 1
            elif len(tried_cuts) % CONTINUE_EVERY == 0:
                _check_continued_life(image, memory, obligations)
                continued += 1
            else:
                _check_stored_releases(image, memory, obligations, rng)
        except (AssertionError, LedgerError) as error:
            error.add_note(
                f"power cut {len(tried_cuts)} after {len(obligations.released)} releases: {crash.description}"
            )
            raise
    images = {contents for _, contents in tried_cuts}
    print(
        f"{len(images)} power cuts, {refused} of them before the ledger existed; "
        f"after {continued} of them, the device continued until its budget was spent"
    )
    assert len(images) >= MINIMUM_CUTS
    assert continued > 20
    assert refused > 20


def _restore(image: Image, directory: Path) -> Path:
    """Write this image to an otherwise empty directory, and return the ledger's path."""
    home = directory / "home"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    for name, content in image.items():
        (home / name).write_bytes(content)
    return home / life.LEDGER


def _check_missing_and_recreated(image: Image, directory: Path) -> None:
    """Check that a ledger that was never made is reported missing, and can be made over the remains of an attempt."""
    path = _restore(image, directory)
    with pytest.raises(LedgerError, match=r"missing.*Restore") as exc_info:
        Ledger.open(path, life.OWNER, life.BUDGET)
    assert str(path) in str(exc_info.value)
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == image
    Ledger.create(path, life.OWNER, life.BUDGET)
    Ledger.open(path, life.OWNER, life.BUDGET).close()


def _check_stored_releases(image: Image, directory: Path, obligations: Obligations, rng: random.Random) -> None:
    """Check that every release is stored and charged, with at most one further charge, for the one in progress."""
    ledger = Ledger.open(_restore(image, directory), life.OWNER, life.BUDGET)
    try:
        spending, count = ledger.spending(), len(obligations.released)
        assert count <= spending.releases <= spending.charges <= count + 1
        assert spending.epsilon <= life.EPSILON
        queries = list(obligations.released)
        for query in {*queries[-RELEASES_CHECKED // 2 :], *rng.sample(queries, min(count, RELEASES_CHECKED // 2))}:
            stored = ledger.stored_release(query)
            assert stored is not None, "every release is in the ledger"
            assert stored.value == obligations.released[query]
    finally:
        ledger.close()


def _check_continued_life(image: Image, directory: Path, obligations: Obligations) -> None:
    """Check that repeated queries get the same answers, and that all answers together are within the budget."""
    path, released_values = _restore(image, directory), dict(obligations.released)
    lossless_ledger = Ledger.in_memory(life.OWNER, life.BUDGET)
    refused = 0
    for make_vault, queries in (
        (life.record_vault, [life.record_query(slot) for slot in range(life.RECORDS)]),
        (life.gradient_vault, [life.gradient_query(slot) for slot in range(life.ROUNDS)]),
    ):
        vault, lossless_vault = make_vault(Ledger.open(path, life.OWNER, life.BUDGET)), make_vault(lossless_ledger)
        for query in queries:
            answer = vault.answer(query)
            if isinstance(answer, Refused):
                assert query.id not in released_values
                refused += 1
            else:
                value = answer.value.tobytes()
                assert released_values.setdefault(query.id, value) == value, "each query has a single answer"
                assert _is_affordable(lossless_vault, query), "all releases together are within the budget"
        vault.close()
    spending = _spending(path)
    assert spending.charges == spending.releases == len(released_values)
    assert spending.epsilon <= life.EPSILON
    assert refused > 0
    lossless_ledger.close()


def _spending(path: Path) -> Spending:
    reader = Ledger.read(path)
    try:
        return reader.spending()
    finally:
        reader.close()


def _is_affordable(lossless_vault: Vault, query: Query) -> bool:
    """Return whether a ledger that never lost anything would also have paid for this query."""
    return not isinstance(lossless_vault.answer(query), Refused)
