"""Meters in the home, judged by their stored windows, and their broker."""

import re
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sottovoce.config import load
from sottovoce.data.feed import Window
from sottovoce.doctor import Level, Subject
from sottovoce.errors import ExitCode
from sottovoce_home.doctor import check_feed
from sottovoce_home.store import MeterActivity, WindowStore

from tests.support.home import write_home_config
from tests.support.patients import worst_finding

_PLUG = """[[feed.meters]]
name = "plug"
format = "number"
[[feed.formats]]
name = "number"
kind = "counter"
payload = "plain"
unit = "Wh"
values = [{ topic = "plug/energy" }]
"""


@pytest.fixture
def broker() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def _subject(directory: Path, broker: socket.socket, empty: int = 0) -> Subject:
    """Make a device that may learn from this many days before today, and from later days."""
    config = write_home_config(directory, f"mqtt://127.0.0.1:{broker.getsockname()[1]}", meters=_PLUG)
    first = int(time.time() - 60) // 86_400 - empty
    config.write_text(re.sub(r"windows = .*", f"windows = [{first}, 40000]", config.read_text()))
    return Subject(config, load(config))


def _windows(directory: Path, minutes_ago: float) -> None:
    with closing(WindowStore(directory / "windows.db", 60, 400)) as store:
        store.write([Window("plug", int(time.time() - 60 * minutes_ago) // 60, 12)], {})


@pytest.mark.parametrize("minutes, level", [(1, Level.OK), (600, Level.WARNING)])
def test_the_age_of_the_newest_window(tmp_path: Path, broker: socket.socket, minutes: float, level: Level) -> None:
    _windows(tmp_path, minutes)
    before = sorted(tmp_path.iterdir())
    result = list(check_feed(_subject(tmp_path, broker)))
    assert worst_finding(result).level is level
    assert "12" not in " ".join(finding.what for finding in result if "windows" in finding.what), "no energy is shown"
    assert sorted({*before, tmp_path / "agent.toml"}) == sorted(tmp_path.iterdir()), (
        "SQLite leaves files where it reads"
    )


@pytest.mark.parametrize("empty, warns", [(30, False), (31, True)])
def test_days_before_the_first_stored_one_also_count(
    tmp_path: Path, broker: socket.socket, empty: int, warns: bool
) -> None:
    _windows(tmp_path, 1)
    results = [finding for finding in check_feed(_subject(tmp_path, broker, empty)) if "data.windows" in finding.what]
    assert [finding.level for finding in results] == [Level.WARNING] * warns
    assert all(f"begins {empty} days before" in finding.what for finding in results)


def test_without_windows(tmp_path: Path, broker: socket.socket) -> None:
    finding = worst_finding(check_feed(_subject(tmp_path, broker)))
    assert (finding.code, "feed run" in finding.remedy) == (ExitCode.DATA, True)


def test_an_unreachable_broker(tmp_path: Path, broker: socket.socket) -> None:
    _windows(tmp_path, 1)
    subject = _subject(tmp_path, broker)
    broker.close()
    finding = worst_finding(check_feed(subject))
    assert (finding.code, "home's broker" in finding.what) == (ExitCode.NETWORK, True)


def test_a_device_without_meters_is_not_checked(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    path.write_text('[agent]\nstate = "s"\n[data]\nsource = "npz:a"\nfeatures = 2\nclasses = 2\nexpected_records = 1\n')
    assert list(check_feed(Subject(path, load(path)))) == []


def test_a_meter_whose_messages_are_all_refused(tmp_path: Path, broker: socket.socket) -> None:
    now = int(time.time())
    with closing(WindowStore(tmp_path / "windows.db", 60, 400)) as store:
        store.write([Window("plug", now // 60 - 1, 12)], {}, {"plug": MeterActivity(now, now - 1000, "fell", 2)})
    result = list(check_feed(_subject(tmp_path, broker)))
    assert any(
        "none has been accepted for 17 minutes: fell" in item.what for item in result if item.level is Level.WARNING
    )
    assert any("2 new counts" in item.what for item in result)
