"""Write throttle: a day's allowance of bytes is spread evenly over the day."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from sottovoce.node.waits import DailyCounter, Waits, resting_until, seconds_to_wait

DAY, MAX = 86_400, 2**20


@pytest.mark.parametrize("at", [0, 3_600, DAY // 2, DAY - 1])
def test_part_of_the_day_s_bytes_may_be_written_at_once(at: int) -> None:
    assert seconds_to_wait(MAX // 4, MAX, 20_000 * DAY + at) == 0


def test_the_rest_is_spread_over_the_day() -> None:
    """A device that always has a kilobyte to write uses a day's bytes in a day, and no sooner."""
    now, written, pauses = 20_000.0 * DAY, 0, 0
    while written < MAX:
        waited = seconds_to_wait(written, MAX, now)
        assert waited < DAY / 500, "it never pauses for long"
        pauses += waited > 0
        now += waited
        written += 1024
    assert 0.99 * DAY < now % DAY < DAY
    assert pauses > 700


def test_more_than_a_day_s_bytes_wait_for_the_next_day() -> None:
    assert seconds_to_wait(MAX, MAX, 20_000 * DAY + 100) == DAY - 100


def test_a_device_that_has_written_little_by_noon_does_not_wait() -> None:
    assert seconds_to_wait(MAX // 2, MAX, 20_000 * DAY + DAY // 2) == 0


def test_a_growing_counter_is_counted_from_midnight(tmp_path: Path) -> None:
    total, now = 500, 20_000.0 * DAY + 100
    today = DailyCounter(tmp_path / "written", MAX, lambda: total, lambda: now)
    assert today() == 500, "what was written before, while the process started"
    total = 700
    assert today() == 700
    today.update()
    now += DAY
    assert today() == 0
    total = 701
    assert today() == 1
    today.close()


class Disk:
    """Counts the bytes written to it."""

    written = 0

    def count(self) -> int:
        return self.written


def test_a_clean_restart_continues_the_count_exactly(tmp_path: Path) -> None:
    disk = Disk()
    for start in range(5):
        today = DailyCounter(tmp_path / "written", MAX, disk.count, lambda: 20_000.0 * DAY)
        assert today() == 1000 * start
        disk.written += 1000
        today.close()


def test_no_number_of_crashes_grants_more_than_the_quota(tmp_path: Path) -> None:
    """A crashed counter is never closed: what its file contains decides."""
    disk = Disk()
    for _ in range(50):
        today = DailyCounter(tmp_path / "written", MAX, disk.count, lambda: 20_000.0 * DAY)
        for _ in range(100):
            if seconds_to_wait(today(), MAX, 20_000.0 * DAY) > 0:
                break
            disk.written += 1024
            today.update()
    assert 0 < disk.written <= MAX // 4, "a quarter of a day's bytes, over all lives together"


def test_a_corrupt_count_grants_no_bytes_at_once(tmp_path: Path) -> None:
    path = tmp_path / "written"
    path.write_bytes(b"rubbish")
    assert DailyCounter(path, MAX, lambda: 0)() == MAX // 4


def test_counting_rarely_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs: list[int] = []
    disk = Disk()
    monkeypatch.setattr("sottovoce.storage.disk_writes.os.fdatasync", syncs.append)
    today = DailyCounter(tmp_path / "written", 2**28, disk.count, lambda: 20_000.0 * DAY)
    for _ in range(1000):
        disk.written += 1024
        today.update()
    assert len(syncs) <= 2, "a megabyte costs at most one write in addition to the first"


def test_an_agent_rests_until_its_last_wait_ends() -> None:
    waits = Waits()
    assert resting_until(waits) is None
    waits.begin("timer:cycle", "the next cycle", 900.0)
    assert resting_until(waits) is None
    waits.begin("wear", "the ledger's quota", 60.0)
    waits.begin("disk-wear", "the device's quota", 600.0)
    rest = resting_until(waits)
    assert rest is not None
    assert 590 < (rest - datetime.now(UTC)).total_seconds() <= 600
    waits.end("wear")
    waits.end("disk-wear")
    assert resting_until(waits) is None
