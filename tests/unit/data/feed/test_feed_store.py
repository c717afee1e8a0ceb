"""Windows on disk: durable, private, limited."""

import os
import sqlite3
import stat
from pathlib import Path

import numpy as np
import pytest
from sottovoce.data import load, parse
from sottovoce.data.feed import Window, read_windows
from sottovoce.days import NOT_BEFORE
from sottovoce.errors import DataError
from sottovoce_home.store import WindowStore, read_summary

DAY = 48


def stored(
    path: Path, *windows: Window, keep_days: int = 400, refused: dict[tuple[str, str], int] | None = None
) -> Path:
    store = WindowStore(path, 1800, keep_days)
    store.write(windows, refused or {})
    store.close()
    return path


def test_windows_are_consecutive_and_gaps_are_missing(tmp_path: Path) -> None:
    path = stored(tmp_path / "w.db", Window("solar", 1001, 0), Window("house", 1000, 5), Window("house", 1002, 7))
    windows = read_windows(path)
    assert (windows.meters, windows.first, windows.seconds) == (("house", "solar"), 1000, 1800)
    assert windows.wh.dtype == np.int64
    assert windows.wh.tolist() == [[5, -1, 7], [-1, 0, -1]]


def test_earlier_windows_can_be_omitted(tmp_path: Path) -> None:
    path = stored(tmp_path / "w.db", *(Window("house", number, number) for number in range(1000, 1005)))
    windows = read_windows(path, since=1003)
    assert (windows.first, windows.wh.tolist()) == (1003, [[1003, 1004]])
    assert read_windows(path, since=2000).wh.shape == (1, 0)


def test_an_empty_store_has_no_windows(tmp_path: Path) -> None:
    windows = read_windows(stored(tmp_path / "w.db"))
    assert (windows.meters, windows.wh.shape) == ((), (0, 0))


def test_stored_windows_do_not_change(tmp_path: Path) -> None:
    path = stored(stored(tmp_path / "w.db", Window("house", 1000, 5)), Window("house", 1000, 9))
    assert read_windows(path).wh.tolist() == [[5]]


def test_whole_days_are_deleted_by_the_clock_and_not_by_a_reading(tmp_path: Path) -> None:
    path, today = tmp_path / "w.db", int(NOT_BEFORE // 86_400) + 10
    store = WindowStore(path, 1800, keep_days=2)
    store.write([Window("house", (today - 3) * DAY + n, n) for n in range(3 * DAY)], {})
    store.write([Window("house", (today + 300) * DAY, 5)], {})
    assert (read_windows(path).wh >= 0).sum() == 3 * DAY + 1
    store.prune(today * 86_400 + 3600.0)
    assert read_windows(path).first == (today - 2) * DAY
    store.prune(0.0)  # the clock is not set
    store.write([Window("house", (today - 3) * DAY, 7)], {})
    store.prune(today * 86_400 + 7200.0)
    assert read_windows(path).first == (today - 3) * DAY, "once a day"
    store.prune((today + 1) * 86_400.0)
    assert read_windows(path).first == (today - 1) * DAY
    store.close()


def test_deleted_windows_are_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    store = WindowStore(path, 1800, 1)
    store.write([Window("a-meter-that-was-here", 1000, 5)], {})
    assert store._execute("PRAGMA secure_delete").fetchone() == (1,)
    store.close()


def test_no_other_user_can_read_the_store(tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        store = WindowStore(tmp_path / "w.db", 1800, 400)
        store.write([Window("house", 1000, 5)], {})
        files = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
        store.close()
    finally:
        os.umask(mask)
    assert {"w.db", "w.db-wal", "w.db-shm", "w.db.lock"} == set(files)
    assert set(files.values()) == {0o600}


def test_every_commit_is_on_disk(tmp_path: Path) -> None:
    store = WindowStore(tmp_path / "w.db", 1800, 400)
    assert store._execute("PRAGMA synchronous").fetchone() == (2,), "FULL"
    assert store._execute("PRAGMA journal_mode").fetchone() == ("wal",)
    store.close()


def test_the_store_can_be_read_while_it_is_written(tmp_path: Path) -> None:
    store = WindowStore(tmp_path / "w.db", 1800, 400)
    store.write([Window("house", 1000, 5)], {})
    assert read_windows(tmp_path / "w.db").wh.tolist() == [[5]]
    store.write([Window("house", 1001, 6)], {})
    assert read_windows(tmp_path / "w.db").wh.tolist() == [[5, 6]]
    store.close()


def test_refusals_add_up(tmp_path: Path) -> None:
    path = stored(tmp_path / "w.db", Window("house", 1000, 5), refused={("house", "fell"): 2})
    stored(path, refused={("house", "fell"): 3, ("house", "jumped"): 1})
    result = read_summary(path)
    assert result.refusals == {("house", "fell"): 5, ("house", "jumped"): 1}
    assert result.meters == {"house": (1, 1000, 1000)}


def test_the_store_s_name_is_permanent(tmp_path: Path) -> None:
    first = WindowStore(tmp_path / "w.db", 1800, 400)
    first.close()
    second = WindowStore(tmp_path / "w.db", 1800, 400)
    second.close()
    assert first.identifier == second.identifier
    assert len(first.identifier) == 12


def test_only_one_process_writes(tmp_path: Path) -> None:
    store = WindowStore(tmp_path / "w.db", 1800, 400)
    with pytest.raises(DataError, match="stop"):
        WindowStore(tmp_path / "w.db", 1800, 400)
    store.close()
    WindowStore(tmp_path / "w.db", 1800, 400).close()


def test_all_windows_have_one_length(tmp_path: Path) -> None:
    path = stored(tmp_path / "w.db")
    with pytest.raises(DataError, match=r"restore feed\.window"):
        WindowStore(path, 900, 400)
    WindowStore(path, 1800, 400).close()


@pytest.mark.parametrize("content", [b"no database", b"SQLite format 3\x00" + b"x" * 2000, b""])
def test_a_corrupt_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "w.db"
    path.write_bytes(content)
    for use in (read_windows, read_summary):
        with pytest.raises(DataError, match=r"w\.db"):
            use(path)


@pytest.mark.parametrize("content", [b"no database" * 100, b"SQLite format 3\x00" + b"x" * 2000])
def test_the_feed_keeps_a_corrupt_file_aside_and_begins_an_empty_one(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "w.db"
    for number in (1, 2):
        path.write_bytes(content)
        store = WindowStore(path, 1800, 400)
        store.write([Window("house", 1000, 5)], {})
        store.close()
        assert (tmp_path / f"w.db.corrupt-{number}").read_bytes() == content
        assert read_windows(path).wh.tolist() == [[5]]


def test_a_store_that_becomes_corrupt_while_it_is_open_is_replaced(tmp_path: Path) -> None:
    path = stored(tmp_path / "w.db", *(Window("house", number, 5) for number in range(1000, 3000)))
    store = WindowStore(path, 1800, 400)
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))
    with pytest.raises(DataError, match=r"w\.db"):
        store.write([Window("house", number, 5) for number in range(3000)], {})
    store.write([Window("house", 1000, 7)], {})
    assert (tmp_path / "w.db.corrupt-1").exists()
    assert read_windows(path).wh.tolist() == [[7]]


def test_window_numbers_without_a_time_count_as_corruption(tmp_path: Path) -> None:
    path = stored(tmp_path / "w.db", Window("house", 1000, 5))
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO window VALUES (1, 9000000000000000, 5)")
    connection.commit()
    connection.close()
    with pytest.raises(DataError, match="window"):
        read_windows(path)


def test_a_full_disk_is_reported_and_loses_nothing(tmp_path: Path) -> None:
    path = stored(tmp_path / "w.db", Window("house", 1000, 5))
    store = WindowStore(path, 1800, 400)
    pages = store._execute("PRAGMA page_count").fetchone()[0]
    store._execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(DataError, match="disk"):
        store.write([Window("house", number, 7) for number in range(2000, 22000)], {})
    store._execute("PRAGMA max_page_count = 100000")
    store.write([Window("house", 1001, 6)], {})
    store.close()
    assert read_windows(path).wh.tolist() == [[5, 6]]


def test_no_store_exists_before_the_feed_has_run(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="sottovoce feed run"):
        read_windows(tmp_path / "w.db")
    with pytest.raises(DataError, match=r"feed\.store"):
        WindowStore(tmp_path / "nowhere" / "w.db", 1800, 400)


class TestSpec:
    def test_the_source_s_path_is_the_store(self) -> None:
        spec = parse("feed:mqtt://broker:1883#store=/var/lib/w.db&meter=house")
        assert spec.path == Path("/var/lib/w.db")
        assert spec.options == {"meter": "house"}

    def test_a_missing_store_is_reported(self) -> None:
        with pytest.raises(DataError, match="'store'"):
            parse("feed:mqtt://broker:1883")

    def test_windows_become_one_meter_s_records(self, tmp_path: Path) -> None:
        day = 20_000
        windows = [Window(meter, day * DAY + n, 100 + n) for meter in ("house", "solar") for n in range(2 * DAY)]
        path = stored(tmp_path / "w.db", *windows)
        both = load(f"feed:mqtt://broker#store={path}").records
        house = load(f"feed:mqtt://broker#store={path}&meter=house").records
        assert len(both) == 2 * len(house) > 0
        assert house.windows is not None
        assert set(house.windows.tolist()) == {day, day + 1}

    def test_a_meter_without_windows_has_no_records(self, tmp_path: Path) -> None:
        """Whether a meter has any windows is private, so it decides nothing but the records."""
        path = stored(tmp_path / "w.db", Window("house", 1000, 5))
        assert not len(load(f"feed:mqtt://broker#store={path}&meter=garage").records)
