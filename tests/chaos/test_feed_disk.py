"""A feed whose disk is full, read-only, or gone and back: it is back at work by itself."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from sottovoce.errors import ExitCode

from tests.support.disks import fill_disk, mounted
from tests.support.home import FeedProcess, write_home_config
from tests.support.waiting import TIMEOUT

pytestmark = pytest.mark.process

OPENED = "waiting-for-broker"  # logged once the store is open: nothing listens at the broker's port
WAITS = "waiting-for-disk"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=1m", "tmpfs") as directory:
        yield directory


@pytest.fixture
def config(disk: Path, tmp_path: Path) -> Path:
    return write_home_config(tmp_path, "mqtt://127.0.0.1:9", f'store = "{disk / "windows.db"}"\n')


def remount(disk: Path, option: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{option}", disk], check=True)


def test_a_feed_that_starts_on_a_full_disk_waits_for_space(disk: Path, config: Path) -> None:
    filler = fill_disk(disk)
    with FeedProcess(config) as feed:
        feed.wait_for_log(WAITS)
        filler.unlink()
        feed.wait_for_log(OPENED)
        assert (disk / "windows.db").exists()
        assert feed.end() == ExitCode.DONE
        assert "Traceback" not in feed.log()


def test_a_feed_on_a_read_only_disk_waits_or_lets_systemd_start_a_new_process(
    disk: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FeedProcess(config) as feed:
        feed.wait_for_log(OPENED)
        assert feed.end() == ExitCode.DONE
    remount(disk, "ro")
    with FeedProcess(config) as feed:
        feed.wait_for_log(WAITS)
        remount(disk, "rw")
        feed.wait_for_log(OPENED, times=2)
        assert feed.end() == ExitCode.DONE
    remount(disk, "ro")
    monkeypatch.setenv("INVOCATION_ID", "a-unit-s")
    with FeedProcess(config) as feed:
        assert feed.process.wait(timeout=TIMEOUT) == ExitCode.AGAIN
        assert "windows.db" in feed.log().splitlines()[-1]
    remount(disk, "rw")
    with FeedProcess(config) as feed:
        feed.wait_for_log(OPENED, times=3)
        assert feed.end() == ExitCode.DONE
        assert "Traceback" not in feed.log()


def test_a_damaged_store_is_set_aside(disk: Path, config: Path) -> None:
    (disk / "windows.db").write_bytes(b"rubbish" * 1000)
    with FeedProcess(config) as feed:
        feed.wait_for_log("store-replaced")
        feed.wait_for_log(OPENED)
        assert feed.end() == ExitCode.DONE
    assert (disk / "windows.db.corrupt-1").read_bytes() == b"rubbish" * 1000
