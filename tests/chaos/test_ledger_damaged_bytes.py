"""Ledger with changed bytes: it is refused by name and left unchanged, or it answers exactly as before.

A part of the log that SQLite cannot read is an exception: a power cut leaves such a part too, so the ledger opens
without that part. The ledger is then a prefix of its former self, which every holder of its former head can detect.
"""

import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from sottovoce.accounting.events import GaussianSum, RecordReleased
from sottovoce.errors import LedgerError
from sottovoce.schema import PAGE_BYTES
from sottovoce.vault import Budget, Ledger, Spending
from sottovoce.vault.budget import StoredRelease
from sottovoce.vault.chain import Head

from tests.support.crash_disk import Image
from tests.support.memory import memory_directory

OWNER, BUDGET = "meter-17", Budget(2.0, 1e-5, "record", "replace-one")
LEDGER, LOG = "ledger.db", "ledger.db-wal"
PAGE, HEADER = PAGE_BYTES, 32  # bytes: of a page, of the log's header
CHECKPOINTED, CHARGES = 20, 40
FLIPS = 500


@dataclass(frozen=True, slots=True)
class Books:
    """Everything that a ledger reports.

    Attributes:
        spending: its spending.
        releases: its stored releases, by query.
        head: the end of its chain of charges.
    """

    spending: Spending
    releases: dict[bytes, StoredRelease | None]
    head: Head


@dataclass(frozen=True, slots=True)
class Original:
    """A ledger that was not closed: some charges are in the database, some in the log.

    Attributes:
        image: its files.
        older: its database before the last charges.
        books: its reports.
    """

    image: Image
    older: bytes
    books: Books


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Original:
    path = tmp_path_factory.mktemp("original") / LEDGER
    Ledger.create(path, OWNER, BUDGET)
    ledger, rng, older = Ledger.open(path, OWNER, BUDGET), random.Random(1), b""
    for number in range(CHARGES):
        event = RecordReleased(number, "laplace", 8, 2, 0.25) if number % 4 else GaussianSum(10**4, 5000)
        assert ledger.charge(query(number), event)
        ledger.store(query(number), StoredRelease(-3, rng.randbytes(600), False))
        if number == CHECKPOINTED:
            ledger.close()  # which moves the log into the database
            older = path.read_bytes()
            ledger = Ledger.open(path, OWNER, BUDGET)
    image = {name: path.with_name(name).read_bytes() for name in (LEDGER, LOG)}
    books = answered(ledger)
    ledger.close()
    return Original(image, older, books)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Callable[[Image], Path]]:
    """A function that puts the files of an image, and no others, in place."""
    with memory_directory(tmp_path) as directory:

        def restored(image: Image) -> Path:
            home = directory / "home"
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir()
            for name, content in image.items():
                (home / name).write_bytes(content)
            return home / LEDGER

        yield restored


def query(number: int) -> bytes:
    return number.to_bytes(32, "big")


def answered(ledger: Ledger) -> Books:
    return Books(ledger.spending(), {query(n): ledger.stored_release(query(n)) for n in range(CHARGES)}, ledger.head())


def opened(path: Path) -> Ledger | None:
    """The ledger, or None when it was refused as it should be: by name, with a remedy, and left as it is."""
    before = contents(path)
    try:
        return Ledger.open(path, OWNER, BUDGET)
    except LedgerError as error:
        said = str(error)
    assert str(path) in said, "it is not named"
    remedies = ("restore it from", "restore the ledger from", "Restore this exact file")
    assert any(remedy in said for remedy in remedies), "no remedy is given"
    assert contents(path) == before, "it was changed"
    return None


def contents(path: Path) -> Image:
    """The contents of a ledger's files; an empty log counts as absent."""
    files = [file for file in (path, path.with_name(LOG)) if file.exists()]
    return {LOG: b"", **{file.name: file.read_bytes() for file in files}}


def flipped(content: bytes, place: int, bit: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]


def damaged_databases(original: Original) -> Iterator[tuple[str, Image]]:
    """Databases with flipped bits, zeroed pages or cut ends; with the log where it covers none of the damage."""
    rng, closed = random.Random(2), {LEDGER: original.older}
    size = len(original.older)
    for _ in range(FLIPS):
        byte, bit = rng.randrange(size), rng.randrange(8)
        yield f"bit {bit} of byte {byte}", {LEDGER: flipped(closed[LEDGER], byte, bit)}
        yield (
            f"bit {bit} of byte {byte}, under a log",
            {
                **original.image,
                LEDGER: flipped(original.image[LEDGER], byte, bit),
            },
        )
    for start in range(0, size, PAGE):
        zeros = closed[LEDGER][:start] + bytes(PAGE) + closed[LEDGER][start + PAGE :]
        yield f"zeros from {start} on", {LEDGER: zeros}
    for length in [*range(0, size, PAGE), *(rng.randrange(size) for _ in range(20))]:
        yield f"only {length} bytes", {LEDGER: closed[LEDGER][:length]}


def test_a_changed_database_is_refused_or_changes_no_answer(original: Original, place: Callable[[Image], Path]) -> None:
    whole = opened(place({LEDGER: original.older}))
    assert whole is not None
    closed = answered(whole)
    whole.close()
    refused = tried = 0
    for what, image in damaged_databases(original):
        ledger = opened(place(image))
        tried += 1
        if ledger is None:
            refused += 1
            continue
        books = answered(ledger)
        ledger.close()
        assert books == (original.books if LOG in image else closed), what
    print(f"{tried} damaged databases: {refused} refused, the others answered as before")
    assert refused > tried / 4


def damaged_logs(original: Original) -> Iterator[tuple[str, Image]]:
    """Logs with flipped bits or cut ends."""
    rng, log = random.Random(3), original.image[LOG]
    for _ in range(FLIPS):
        byte, bit = rng.randrange(len(log)), rng.randrange(8)
        yield f"bit {bit} of byte {byte}", {**original.image, LOG: flipped(log, byte, bit)}
    for length in [*range(0, HEADER + 1, 8), *(rng.randrange(len(log)) for _ in range(100))]:
        yield f"only {length} bytes", {**original.image, LOG: log[:length]}
    yield "no log", {LEDGER: original.image[LEDGER]}


def test_a_changed_log_is_refused_or_leaves_a_beginning_of_the_ledger(
    original: Original, place: Callable[[Image], Path]
) -> None:
    """There are never charges that were not made, and never fewer without the head showing it."""
    shortened = 0
    for what, image in damaged_logs(original):
        ledger = opened(place(image))
        if ledger is None:
            continue
        books = answered(ledger)
        known = ledger.link(original.books.head.charges)
        ledger.close()
        kept = {query: stored for query, stored in books.releases.items() if stored is not None}
        assert kept.items() <= original.books.releases.items(), what
        assert len(kept) == books.spending.releases, what
        assert books.spending.releases <= books.spending.charges <= books.spending.releases + 1, what
        assert books.head.charges >= CHECKPOINTED, what
        if books.head == original.books.head:
            assert books.spending.charges == CHARGES, what
        else:
            assert known is None, f"{what}: a head remembered from before is still there"
            shortened += 1
    assert shortened > 0


def folded(image: Image, directory: Path) -> Image:
    """The files once the whole log has been copied into the database, before the log is restarted."""
    directory.mkdir()
    for name, raw in image.items():
        (directory / name).write_bytes(raw)
    with closing(sqlite3.connect(directory / LEDGER)) as connection:
        assert connection.execute("PRAGMA wal_checkpoint(FULL)").fetchone()[0] == 0
        return {name: (directory / name).read_bytes() for name in (LEDGER, LOG)}


def test_a_head_that_is_torn_where_the_log_begins_anew_is_no_damage(
    original: Original, place: Callable[[Image], Path], tmp_path: Path
) -> None:
    """Some bytes of the new head are on the disk, and of the old one the rest: all that was in the log is folded."""
    image = folded(original.image, tmp_path / "folded")
    old, frames = image[LOG][:HEADER], image[LOG][HEADER:]
    new = old[:12] + random.Random(5).randbytes(HEADER - 12)  # another sequence, other salts, another checksum
    assert len(frames) > PAGE
    for cut in range(13, HEADER):
        for torn in (old[:cut] + new[cut:], new[:cut] + old[cut:]):
            ledger = opened(place({LEDGER: image[LEDGER], LOG: torn + frames}))
            assert ledger is not None, f"torn at {cut}"
            assert answered(ledger) == original.books
            ledger.close()


def test_a_head_that_is_damaged_where_the_log_is_not_folded_is_refused(
    original: Original, place: Callable[[Image], Path]
) -> None:
    for byte in range(24, HEADER):
        assert opened(place({**original.image, LOG: flipped(original.image[LOG], byte, 3)})) is None


def test_an_older_copy_is_a_beginning_that_the_head_tells(original: Original, place: Callable[[Image], Path]) -> None:
    for image in ({LEDGER: original.older}, {LEDGER: original.older, LOG: b""}):
        ledger = opened(place(image))
        assert ledger is not None
        assert ledger.head().charges == CHECKPOINTED + 1
        assert ledger.link(original.books.head.charges) is None
        ledger.close()


def test_a_database_under_the_log_of_another_is_refused(
    original: Original, place: Callable[[Image], Path], tmp_path: Path
) -> None:
    """Pages of one ledger inside another: neither chain holds."""
    path = tmp_path / "other" / LEDGER
    path.parent.mkdir()
    Ledger.create(path, OWNER, BUDGET)
    assert opened(place({LEDGER: path.read_bytes(), LOG: original.image[LOG]})) is None


def test_a_log_without_its_database_is_missed_by_name_and_never_replaced(
    original: Original, place: Callable[[Image], Path]
) -> None:
    path = place({LOG: original.image[LOG]})
    assert opened(path) is None
    with pytest.raises(LedgerError, match="never replaced"):
        Ledger.create(path, OWNER, BUDGET)
    assert not path.exists()
    assert path.with_name(LOG).read_bytes() == original.image[LOG]
