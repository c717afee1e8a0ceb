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
from sottovoce.errors import LedgerError
from sottovoce.privacy.accounting.events import GaussianSum, RecordReleased
from sottovoce.privacy.ledger.budget import StoredRelease
from sottovoce.privacy.ledger.chain import Head
from sottovoce.privacy.vault import Budget, Ledger, Spending
from sottovoce.storage.schema import PAGE_BYTES

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
    """Ledger that was not closed: some charges are in the database, some in the log.

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
    books = read_books(ledger)
    ledger.close()
    return Original(image, older, books)


@pytest.fixture
def place_files(tmp_path: Path) -> Iterator[Callable[[Image], Path]]:
    """Return a function that writes an image's files to an otherwise empty directory."""
    with memory_directory(tmp_path) as directory:

        def restore(image: Image) -> Path:
            home = directory / "home"
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir()
            for name, content in image.items():
                (home / name).write_bytes(content)
            return home / LEDGER

        yield restore


def query(number: int) -> bytes:
    return number.to_bytes(32, "big")


def read_books(ledger: Ledger) -> Books:
    return Books(ledger.spending(), {query(n): ledger.stored_release(query(n)) for n in range(CHARGES)}, ledger.head())


def open_or_refuse(path: Path) -> Ledger | None:
    """Open a ledger; return None if it is refused as expected: by name, with a remedy, and unchanged."""
    before = read_contents(path)
    try:
        return Ledger.open(path, OWNER, BUDGET)
    except LedgerError as error:
        message = str(error)
    assert str(path) in message, "the error names the file"
    remedies = ("recover it from", "recover this file from", "Restore this exact file")
    assert any(remedy in message for remedy in remedies), "the error gives a remedy"
    assert read_contents(path) == before, "a refused ledger is unchanged"
    return None


def read_contents(path: Path) -> Image:
    """Return the contents of a ledger's files; an empty log counts as absent."""
    files = [file for file in (path, path.with_name(LOG)) if file.exists()]
    return {LOG: b"", **{file.name: file.read_bytes() for file in files}}


def flip_bit(content: bytes, position: int, bit: int) -> bytes:
    return content[:position] + bytes([content[position] ^ 1 << bit]) + content[position + 1 :]


def corrupt_databases(original: Original) -> Iterator[tuple[str, Image]]:
    """Yield databases with flipped bits, zeroed pages or cut ends, some with a log."""
    rng, closed = random.Random(2), {LEDGER: original.older}
    size = len(original.older)
    for _ in range(FLIPS):
        byte, bit = rng.randrange(size), rng.randrange(8)
        yield f"bit {bit} of byte {byte}", {LEDGER: flip_bit(closed[LEDGER], byte, bit)}
        yield (
            f"bit {bit} of byte {byte}, under a log",
            {
                **original.image,
                LEDGER: flip_bit(original.image[LEDGER], byte, bit),
            },
        )
    for start in range(0, size, PAGE):
        zeros = closed[LEDGER][:start] + bytes(PAGE) + closed[LEDGER][start + PAGE :]
        yield f"zeros from {start} on", {LEDGER: zeros}
    for length in [*range(0, size, PAGE), *(rng.randrange(size) for _ in range(20))]:
        yield f"only {length} bytes", {LEDGER: closed[LEDGER][:length]}


@pytest.mark.slow
def test_a_corrupt_database_is_refused_or_answers_as_before(
    original: Original, place_files: Callable[[Image], Path]
) -> None:
    intact_ledger = open_or_refuse(place_files({LEDGER: original.older}))
    assert intact_ledger is not None
    closed = read_books(intact_ledger)
    intact_ledger.close()
    refused = tried_count = 0
    for description, image in corrupt_databases(original):
        ledger = open_or_refuse(place_files(image))
        tried_count += 1
        if ledger is None:
            refused += 1
            continue
        books = read_books(ledger)
        ledger.close()
        assert books == (original.books if LOG in image else closed), description
    print(f"{tried_count} damaged databases: {refused} refused, the others answered as before")
    assert refused > tried_count / 4


def corrupt_logs(original: Original) -> Iterator[tuple[str, Image]]:
    """Yield logs with flipped bits or cut ends."""
    rng, log = random.Random(3), original.image[LOG]
    for _ in range(FLIPS):
        byte, bit = rng.randrange(len(log)), rng.randrange(8)
        yield f"bit {bit} of byte {byte}", {**original.image, LOG: flip_bit(log, byte, bit)}
    for length in [*range(0, HEADER + 1, 8), *(rng.randrange(len(log)) for _ in range(100))]:
        yield f"only {length} bytes", {**original.image, LOG: log[:length]}
    yield "no log", {LEDGER: original.image[LEDGER]}


@pytest.mark.slow
def test_a_corrupt_log_is_refused_or_leaves_a_prefix_of_the_ledger(
    original: Original, place_files: Callable[[Image], Path]
) -> None:
    """Check that no charge is invented, and that missing charges are visible in the head."""
    shortened = 0
    for description, image in corrupt_logs(original):
        ledger = open_or_refuse(place_files(image))
        if ledger is None:
            continue
        books = read_books(ledger)
        link = ledger.link(original.books.head.charges)
        ledger.close()
        stored_releases = {query: stored for query, stored in books.releases.items() if stored is not None}
        assert stored_releases.items() <= original.books.releases.items(), description
        assert len(stored_releases) == books.spending.releases, description
        assert books.spending.releases <= books.spending.charges <= books.spending.releases + 1, description
        assert books.head.charges >= CHECKPOINTED, description
        if books.head == original.books.head:
            assert books.spending.charges == CHARGES, description
        else:
            assert link is None, f"{description}: the former head is unknown to a shortened ledger"
            shortened += 1
    assert shortened > 0


def fold_log(image: Image, directory: Path) -> Image:
    """Return the files after the whole log was copied into the database, but before the log is restarted."""
    directory.mkdir()
    for name, raw in image.items():
        (directory / name).write_bytes(raw)
    with closing(sqlite3.connect(directory / LEDGER)) as connection:
        assert connection.execute("PRAGMA wal_checkpoint(FULL)").fetchone()[0] == 0
        return {name: (directory / name).read_bytes() for name in (LEDGER, LOG)}


def test_a_torn_header_of_a_restarted_log_loses_nothing(
    original: Original, place_files: Callable[[Image], Path], tmp_path: Path
) -> None:
    """Mix bytes of the old and new log header; the log's contents are already in the database."""
    image = fold_log(original.image, tmp_path / "folded")
    old, frames = image[LOG][:HEADER], image[LOG][HEADER:]
    new = old[:12] + random.Random(5).randbytes(HEADER - 12)  # another sequence, other salts, another checksum
    assert len(frames) > PAGE
    for cut in range(13, HEADER):
        for torn in (old[:cut] + new[cut:], new[:cut] + old[cut:]):
            ledger = open_or_refuse(place_files({LEDGER: image[LEDGER], LOG: torn + frames}))
            assert ledger is not None, f"torn at {cut}"
            assert read_books(ledger) == original.books
            ledger.close()


def test_a_corrupt_header_of_a_log_in_use_is_refused(original: Original, place_files: Callable[[Image], Path]) -> None:
    for byte in range(24, HEADER):
        assert open_or_refuse(place_files({**original.image, LOG: flip_bit(original.image[LOG], byte, 3)})) is None


def test_an_older_copy_is_a_prefix_detectable_by_its_head(
    original: Original, place_files: Callable[[Image], Path]
) -> None:
    for image in ({LEDGER: original.older}, {LEDGER: original.older, LOG: b""}):
        ledger = open_or_refuse(place_files(image))
        assert ledger is not None
        assert ledger.head().charges == CHECKPOINTED + 1
        assert ledger.link(original.books.head.charges) is None
        ledger.close()


def test_a_database_with_another_ledger_s_log_is_refused(
    original: Original, place_files: Callable[[Image], Path], tmp_path: Path
) -> None:
    """Combine the database of one ledger with the log of another, which breaks both chains."""
    path = tmp_path / "other" / LEDGER
    path.parent.mkdir()
    Ledger.create(path, OWNER, BUDGET)
    assert open_or_refuse(place_files({LEDGER: path.read_bytes(), LOG: original.image[LOG]})) is None


def test_a_log_without_its_database_is_reported_and_never_replaced(
    original: Original, place_files: Callable[[Image], Path]
) -> None:
    path = place_files({LOG: original.image[LOG]})
    assert open_or_refuse(path) is None
    with pytest.raises(LedgerError, match="never replaced"):
        Ledger.create(path, OWNER, BUDGET)
    assert not path.exists()
    assert path.with_name(LOG).read_bytes() == original.image[LOG]
