"""State that survives a restart: the boot counter, which is required, and the address book, which may be lost."""

import sqlite3
from pathlib import Path

import pytest
from sottovoce.errors import DataError
from sottovoce_bootstrap import AddressBook, BootCounter, Contact
from sottovoce_bootstrap.address_book import LIFETIME
from sottovoce_bootstrap.contacts import CAPACITY
from sottovoce_bootstrap.record import MAX_NUMBER

_DIGITS = "abcdefghijklmnopqrstuvwxyz234567"


def _contact(number: int) -> Contact:
    return Contact(_DIGITS[number // 32] + _DIGITS[number % 32] + "a" * 30, (f"10.0.0.7:{number + 1}", "[fe80::1]:9"))


def _write(path: Path, contacts: list[Contact]) -> None:
    book = AddressBook(path, 0.0)
    for number, contact in enumerate(contacts):
        book.remember(contact, float(number))
    book.close()


def _read(path: Path) -> list[Contact]:
    book = AddressBook(path, 0.0)
    assert book.replaced is None
    contacts = book.contacts()
    book.close()
    return contacts


def test_a_book_survives_a_restart_in_the_order_of_answers(tmp_path: Path) -> None:
    path = tmp_path / "peers.db"
    assert _read(path) == []
    _write(path, [_contact(1), _contact(2), _contact(3), _contact(1)])
    assert _read(path) == [_contact(2), _contact(3), _contact(1)]
    assert path.stat().st_mode & 0o777 == 0o600


def test_entries_in_an_unclosed_book_survive(tmp_path: Path) -> None:
    path = tmp_path / "peers.db"
    first = AddressBook(path, 0.0)
    first.remember(_contact(1), 1.0)
    assert _read(path) == [_contact(1)]
    first.close()


def test_an_unchanged_contact_is_written_once_a_day(tmp_path: Path) -> None:
    path = tmp_path / "peers.db"
    book = AddressBook(path, 0.0)
    log, sizes = path.with_name("peers.db-wal"), []
    for minute in range(3 * 1440):
        for number in (1, 2, 3):
            book.remember(_contact(number), 60.0 * minute)
        sizes.append(log.stat().st_size)
    assert 3 <= len(set(sizes)) <= 4, "at first, and after each day"
    book.remember(Contact(_contact(1).node_id, ("10.0.0.9:1",)), 60.0 * 3 * 1440)
    assert log.stat().st_size > sizes[-1], "at once for a new address"
    book.close()


def test_a_book_keeps_the_500_devices_that_answered_last(tmp_path: Path) -> None:
    path = tmp_path / "peers.db"
    contacts = [_contact(number) for number in range(CAPACITY + 20)]
    _write(path, contacts)
    assert _read(path) == contacts[20:]


def test_a_device_silent_for_30_days_of_running_time_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "peers.db"
    for number, days in enumerate((0, 29, 2)):
        book = AddressBook(path, 1e6 * number)  # the clock begins at an arbitrary value at each start
        book.remember(_contact(number), 1e6 * number + days * LIFETIME / 30)
        book.close()
    assert _read(path) == [_contact(1), _contact(2)]


@pytest.mark.parametrize("damage", ["nonsense", "header", "page", "empty", "stranger", "no-clock"])
def test_a_corrupt_book_is_restarted_and_reported(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "peers.db"
    _write(path, [_contact(number) for number in range(200)])
    raw = bytearray(path.read_bytes())
    match damage:
        case "nonsense":
            raw = bytearray(b"nonsense" * 1000)
        case "header":
            raw[:32] = bytes(32)
        case "page":
            raw[4096:8192] = b"\xff" * 4096
        case "empty":
            raw.clear()
        case "stranger" | "no-clock":
            connection = sqlite3.connect(path, isolation_level=None)
            connection.execute("PRAGMA application_id = 1" if damage == "stranger" else "DELETE FROM clock")
            connection.close()
            raw = bytearray(path.read_bytes())
    path.write_bytes(raw)
    book = AddressBook(path, 0.0)
    assert book.replaced is not None
    assert "peers.db" in book.replaced
    assert "\n" not in book.replaced
    assert book.contacts() == []
    book.remember(_contact(7), 1.0)
    book.close()
    assert _read(path) == [_contact(7)]


def test_an_invalid_row_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "peers.db"
    _write(path, [_contact(1)])
    connection = sqlite3.connect(path, isolation_level=None)
    for number, endpoints in enumerate(("[", "7", '["nowhere"]', "[5]", '"a:1"')):
        connection.execute("INSERT INTO contact VALUES (?, ?, 5)", (_contact(9 + number).node_id, endpoints))
    connection.close()
    assert _read(path) == [_contact(1)]


def test_an_unwritable_location_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"peers\.db.*permissions"):
        AddressBook(tmp_path / "missing" / "peers.db", 0.0)
    path = tmp_path / "peers.db"
    book = AddressBook(path, 0.0)
    book.close()
    with pytest.raises(DataError, match=r"peers\.db"):
        book.contacts()
    with pytest.raises(DataError, match=r"peers\.db"):
        book.remember(_contact(1), 1.0)
    with pytest.raises(DataError, match=r"boots.*permissions"):
        BootCounter(tmp_path / "missing" / "boots").begin()


def test_every_start_has_a_higher_incarnation(tmp_path: Path) -> None:
    path = tmp_path / "boots"
    first = BootCounter(path).begin()
    assert BootCounter(path).begin() == first + 1
    BootCounter(path).advance(first + 10)
    assert BootCounter(path).begin() == first + 11


@pytest.mark.parametrize("content", [b"", b"x", b"\xff", b"-5", b"0", str(MAX_NUMBER).encode()])
def test_a_lost_counter_continues_above_any_number_of_starts(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "boots"
    path.write_bytes(content)
    assert 1_000_000 < BootCounter(path).begin() < MAX_NUMBER
