"""Listener: it stores windows and logs counts, but never stores or logs a reading."""

import asyncio
import logging
import sqlite3
from pathlib import Path
from typing import Any

import aiomqtt
import pytest
from sottovoce.data.feed import read_windows
from sottovoce_home.broker import _dropping_queue_type
from sottovoce_home.listener import Listener
from sottovoce_home.meters import Meter, Source, Value
from sottovoce_home.pauses import LONGEST, SHORTEST, Backoff
from sottovoce_home.store import WindowStore, read_summary

TOPIC = "home/energy"


class Time:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1_780_000_200.0

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now - 1_780_000_000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Time:
    clock = Time()
    monkeypatch.setattr("sottovoce_home.listener.time", clock)
    return clock


@pytest.fixture
def store(tmp_path: Path) -> WindowStore:
    return WindowStore(tmp_path / "w.db", 1800, 400)


@pytest.fixture
def listener(clock: Time, store: WindowStore) -> Listener:
    source = Source("house", counter=True, json=False, factor=1.0, values=(Value(TOPIC),))
    return Listener([Meter(source, 1800)], store)


def publish_readings(listener: Listener, clock: Time, count: int) -> None:
    """Publish a reading every ten minutes, each 100 Wh higher."""
    for n in range(count):
        listener.receive(TOPIC, str(4595 + 100 * n).encode(), retained=False)
        clock.now += 600


def test_windows_wait_while_the_disk_is_full(
    listener: Listener, clock: Time, store: WindowStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    publish_readings(listener, clock, 8)
    execute = store._execute

    def full(statement: str, *values: Any) -> sqlite3.Cursor:
        if statement == "COMMIT":
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        return execute(statement, *values)

    store._execute = full
    for _ in range(3):
        assert not listener.save()
    assert sum("waiting-for-disk" in line for line in caplog.messages) == 1
    store._execute = execute
    assert listener.save()
    assert (read_windows(tmp_path / "w.db").wh >= 0).sum() == 2


def test_windows_are_written_when_there_is_time(listener: Listener, clock: Time, tmp_path: Path) -> None:
    publish_readings(listener, clock, 5)
    assert not listener.save_if_due(idle=False)
    assert read_windows(tmp_path / "w.db").wh.size == 0
    assert listener.save_if_due(idle=True)
    assert read_windows(tmp_path / "w.db").wh.tolist() == [[300]]
    assert not listener.save_if_due(idle=True), "there is nothing new"


def test_under_load_windows_are_written_together(listener: Listener, clock: Time, tmp_path: Path) -> None:
    written = 0
    for _ in range(300):
        publish_readings(listener, clock, 0)
        clock.now += 0
    for n in range(3 * 300 + 2):
        listener.receive(TOPIC, str(4595 + 100 * n).encode(), retained=False)
        clock.now += 600
        written += listener.save_if_due(idle=False)
    assert written == 1
    assert read_windows(tmp_path / "w.db").wh.shape == (1, 256)


def test_the_first_refusal_of_each_kind_is_logged_and_all_are_counted(
    listener: Listener, clock: Time, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "sottovoce")
    publish_readings(listener, clock, 2)
    for n in range(5):
        listener.receive(TOPIC, f"{4321 - n}.5".encode(), retained=False)
        clock.now += 10
        listener.save_if_due(idle=True)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "meter=house reason=fell" in caplog.text
    assert "4321" not in caplog.text
    assert read_summary(tmp_path / "w.db").refusals == {("house", "fell"): 1}, "the first refusal at once"
    clock.now += 601
    listener.save_if_due(idle=True)
    assert read_summary(tmp_path / "w.db").refusals == {("house", "fell"): 5}, "the others from time to time"


def test_a_silent_meter_is_reported_once(listener: Listener, clock: Time, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "sottovoce")
    listener.log_silent_meters()
    clock.now += 601
    listener.log_silent_meters()
    listener.log_silent_meters()
    assert caplog.text.count("meter-silent meter=house for_s=601 refused=nothing") == 1
    publish_readings(listener, clock, 1)
    assert "meter-heard meter=house" in caplog.text
    clock.now += 601
    listener.receive(TOPIC, b"nonsense", retained=False)
    listener.log_silent_meters()
    assert "refused=not-a-number" in caplog.text


async def test_when_the_queue_is_full_the_oldest_messages_are_dropped() -> None:
    dropped: list[None] = []
    queue = _dropping_queue_type(lambda: dropped.append(None))(maxsize=3)
    for n in range(5):
        queue.put_nowait(aiomqtt.Message(TOPIC, str(n).encode(), 0, False, n, None))
    assert [queue.get_nowait().payload for _ in range(3)] == [b"2", b"3", b"4"]
    assert len(dropped) == 2
    with pytest.raises(asyncio.QueueEmpty):
        queue.get_nowait()


def test_pauses_grow_to_two_minutes_with_jitter() -> None:
    pauses = Backoff()
    first = [pauses.next() for _ in range(10)]
    assert all(SHORTEST <= pause <= LONGEST for pause in first)
    assert first[0] <= 2 * SHORTEST
    late = [pauses.next() for _ in range(200)]
    assert max(late) > LONGEST / 2
    assert min(late) < LONGEST / 2, "full jitter"
    pauses.reset()
    assert pauses.next() <= 2 * SHORTEST


def test_a_new_count_is_logged_and_stored_with_the_meter_s_last_times(
    listener: Listener, clock: Time, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "sottovoce")
    publish_readings(listener, clock, 2)
    for n in range(3):
        listener.receive(TOPIC, str(10 + n).encode(), retained=False)
        clock.now += 500
        listener.save_if_due(idle=True)
    assert "meter-count-restarted meter=house" in caplog.text
    (result,) = read_summary(tmp_path / "w.db").activity.values()
    assert (result.new_counts, result.last_refusal) == (1, "")
    assert result.last_message_at == result.last_accepted_at > 0
    listener.receive(TOPIC, b"9", retained=False)
    clock.now += 601
    listener.save_if_due(idle=True)
    (result,) = read_summary(tmp_path / "w.db").activity.values()
    assert (result.new_counts, result.last_refusal, result.last_message_at > 0) == (1, "fell", True)


def test_readings_wait_until_the_clock_is_right_and_are_placed_where_they_arrived(
    clock: Time, store: WindowStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device without a battery starts with the time of its last shutdown, 3.7 hours ago."""
    unsynchronised, behind = [True], 13_320.0
    monkeypatch.setattr(Time, "time", lambda self: self.now - behind * unsynchronised[0])
    source = Source("house", counter=True, json=False, factor=1.0, values=(Value(TOPIC),))
    listener = Listener([Meter(source, 1800)], store, 7200.0, lambda: unsynchronised[0])
    first = int(clock.now // 1800)
    publish_readings(listener, clock, 4)
    listener.save()
    assert read_windows(tmp_path / "w.db").wh.size == 0
    unsynchronised[0] = False
    for n in range(4, 9):
        listener.receive(TOPIC, str(4595 + 100 * n).encode(), retained=False)
        clock.now += 600
    listener.save()
    windows = read_windows(tmp_path / "w.db")
    assert (windows.first, windows.wh.tolist()) == (first, [[300, 300]])


def test_a_device_without_ntp_believes_its_clock_after_the_declared_time(
    clock: Time, store: WindowStore, tmp_path: Path
) -> None:
    source = Source("house", counter=True, json=False, factor=1.0, values=(Value(TOPIC),))
    listener = Listener([Meter(source, 1800)], store, 3600.0, lambda: True)
    publish_readings(listener, clock, 5)
    listener.save()
    assert read_windows(tmp_path / "w.db").wh.size == 0
    for n in range(5, 9):
        listener.receive(TOPIC, str(4595 + 100 * n).encode(), retained=False)
        clock.now += 600
    listener.save()
    assert read_windows(tmp_path / "w.db").wh.tolist() == [[300, 300]]


def test_a_restart_costs_no_window(clock: Time, tmp_path: Path) -> None:
    source = Source("house", counter=True, json=False, factor=1.0, values=(Value(TOPIC),))
    for n in range(24):
        store = WindowStore(tmp_path / "r.db", 1800, 400)
        listener = Listener([Meter(source, 1800)], store)
        listener.receive(TOPIC, str(4595 + 100 * n).encode(), retained=False)
        clock.now += 600
        listener.save()
        store.close()
    assert read_windows(tmp_path / "r.db").wh.tolist() == [[300] * 7]
