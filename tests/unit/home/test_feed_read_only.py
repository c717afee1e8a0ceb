"""Feed under systemd whose disk is read-only: only a new process can see that it has become writable."""

import asyncio
from pathlib import Path

import pytest
from sottovoce.config.feed import FeedSection
from sottovoce.errors import DiskReadOnly, ExitCode
from sottovoce_home import process


@pytest.fixture
def feed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FeedSection:
    monkeypatch.setattr(process, "is_read_only", lambda _: True)
    monkeypatch.setattr(process, "STUCK_SECONDS", 0.01)
    return FeedSection(store=tmp_path / "absent" / "windows.db")


async def test_a_feed_that_starts_on_a_read_only_disk_asks_for_a_new_process(
    feed: FeedSection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INVOCATION_ID", "1")
    monkeypatch.setattr(process, "WindowStore", _refuse)
    with pytest.raises(DiskReadOnly, match=r"windows\.db") as caught:
        await process._open_store(feed, asyncio.get_running_loop().create_future())
    assert caught.value.exit_code == ExitCode.AGAIN


async def test_a_running_feed_waits_ten_minutes_first(feed: FeedSection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INVOCATION_ID", "1")
    monkeypatch.setattr(process, "_CHECK_INTERVAL", 0.001)
    monkeypatch.setattr(process, "_READ_ONLY_SECONDS", 0.02)
    with pytest.raises(DiskReadOnly):
        await asyncio.wait_for(process._watch_disk(feed), 5)


async def test_a_feed_without_systemd_keeps_waiting(feed: FeedSection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INVOCATION_ID", raising=False)
    monkeypatch.setattr(process, "WindowStore", _refuse)
    loop = asyncio.get_running_loop()
    stopping: asyncio.Future[ExitCode] = loop.create_future()
    loop.call_soon(stopping.set_result, ExitCode.DONE)
    assert await process._open_store(feed, stopping) is None


def _refuse(*_: object) -> None:
    from sottovoce.errors import DataError

    raise DataError("read-only") from OSError(30, "Read-only file system")
