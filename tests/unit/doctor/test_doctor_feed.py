"""Meters of the home, by the windows that they left and their broker."""

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
from sottovoce_home.doctor import feed
from sottovoce_home.store import Heard, WindowStore

from tests.support.home import configured
from tests.support.patients import worst

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
    """A device that may learn from this many days before today, and from those that come."""
    config = configured(directory, f"mqtt://127.0.0.1:{broker.getsockname()[1]}", meters=_PLUG)
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
    found = list(feed(_subject(tmp_path, broker)))
    assert worst(found).level is level
    assert "12" not in " ".join(finding.what for finding in found if "windows" in finding.what), "no energy is shown"
    assert sorted({*before, tmp_path / "agent.toml"}) == sorted(tmp_path.iterdir()), (
        "SQLite leaves files where it reads"
    )


@pytest.mark.parametrize("empty, warns", [(30, False), (31, True)])
def test_days_before_the_first_that_was_kept_are_divided_by_too(
    tmp_path: Path, broker: socket.socket, empty: int, warns: bool
) -> None:
    _windows(tmp_path, 1)
    found = [finding for finding in feed(_subject(tmp_path, broker, empty)) if "data.windows" in finding.what]
    assert [finding.level for finding in found] == [Level.WARNING] * warns
    assert all(f"begins {empty} days before" in finding.what for finding in found)


def test_no_windows_yet(tmp_path: Path, broker: socket.socket) -> None:
    found = worst(feed(_subject(tmp_path, broker)))
    assert (found.code, "feed run" in found.remedy) == (ExitCode.DATA, True)


def test_a_broker_that_is_away(tmp_path: Path, broker: socket.socket) -> None:
    _windows(tmp_path, 1)
    subject = _subject(tmp_path, broker)
    broker.close()
    found = worst(feed(subject))
    assert (found.code, "home's broker" in found.what) == (ExitCode.NETWORK, True)


def test_a_device_without_meters_is_not_asked_for_any(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    path.write_text('[agent]\nstate = "s"\n[data]\nsource = "npz:a"\nfeatures = 2\nclasses = 2\nexpected_records = 1\n')
    assert list(feed(Subject(path, load(path)))) == []


def test_a_meter_none_of_whose_messages_counts(tmp_path: Path, broker: socket.socket) -> None:
    now = int(time.time())
    with closing(WindowStore(tmp_path / "windows.db", 60, 400)) as store:
        store.write([Window("plug", now // 60 - 1, 12)], {}, {"plug": Heard(now, now - 1000, "fell", 2)})
    found = list(feed(_subject(tmp_path, broker)))
    assert any("none has been accepted for 17 minutes: fell" in one.what for one in found if one.level is Level.WARNING)
    assert any("2 new counts" in one.what for one in found)
