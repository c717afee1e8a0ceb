"""Meters in the home, judged by their stored windows, and their broker."""

import re
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sottovoce.config import load
from sottovoce.data.feed import Window
from sottovoce.doctor import Finding, Level, Subject
from sottovoce.errors import ExitCode
from sottovoce_home.doctor import check_feed
from sottovoce_home.meters import DayFacts
from sottovoce_home.store import MeterActivity, WindowStore

from tests.support.broker_answers import ACCEPTED, ACCEPTED_5, REFUSED, REFUSED_5, WRONG_VERSION, AnsweringBroker
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
def broker() -> Iterator[str]:
    with AnsweringBroker({5: ACCEPTED_5}) as answering:
        yield answering.url


def _subject(directory: Path, url: str, empty: int = 0, feed: str = "", meters: str = _PLUG) -> Subject:
    """Make a device that may learn from this many days before today, and from later days."""
    config = write_home_config(directory, url, feed, meters=meters)
    first = int(time.time() - 60) // 86_400 - empty
    config.write_text(re.sub(r"windows = .*", f"windows = [{first}, 40000]", config.read_text()))
    return Subject(config, load(config))


def _windows(directory: Path, minutes_ago: float) -> None:
    with closing(WindowStore(directory / "windows.db", 60, 400)) as store:
        store.write([Window("plug", int(time.time() - 60 * minutes_ago) // 60, 12)], {})


@pytest.mark.parametrize("minutes, level", [(1, Level.OK), (600, Level.WARNING)])
def test_the_age_of_the_newest_window(tmp_path: Path, broker: str, minutes: float, level: Level) -> None:
    _windows(tmp_path, minutes)
    before = sorted(tmp_path.iterdir())
    result = list(check_feed(_subject(tmp_path, broker)))
    assert worst_finding(result).level is level
    assert "12" not in " ".join(finding.what for finding in result if "windows" in finding.what), "no energy is shown"
    assert sorted({*before, tmp_path / "agent.toml"}) == sorted(tmp_path.iterdir()), (
        "SQLite leaves files where it reads"
    )


@pytest.mark.parametrize("empty, warns", [(30, False), (31, True)])
def test_days_before_the_first_stored_one_also_count(tmp_path: Path, broker: str, empty: int, warns: bool) -> None:
    _windows(tmp_path, 1)
    results = [finding for finding in check_feed(_subject(tmp_path, broker, empty)) if "data.windows" in finding.what]
    assert [finding.level for finding in results] == [Level.WARNING] * warns
    assert all(f"begins {empty} days before" in finding.what for finding in results)


def test_without_windows(tmp_path: Path, broker: str) -> None:
    finding = worst_finding(check_feed(_subject(tmp_path, broker)))
    assert (finding.code, "feed run" in finding.remedy) == (ExitCode.DATA, True)


@pytest.mark.parametrize(
    "settings, topic, level, words",
    [
        ('address = "meter:23"', "p1/electricity", Level.OK, "p1"),
        ('adress = "meter:23"', "p1/electricity", Level.PROBLEM, "feed.settings.adress"),
        ('address = "meter:23"', "plug/energy", Level.PROBLEM, "plug/energy"),
    ],
)
def test_a_meter_source_and_its_settings(
    tmp_path: Path, broker: str, settings: str, topic: str, level: Level, words: str
) -> None:
    _windows(tmp_path, 1)
    feed = f'source = "p1"\nsettings = {{ {settings} }}\n'
    subject = _subject(tmp_path, broker, feed=feed, meters=_PLUG.replace("plug/energy", topic))
    (finding,) = [one for one in check_feed(subject) if "feed." in one.what]
    assert (finding.level, words in finding.what) == (level, True)


def _broker_finding(directory: Path, url: str, feed: str = "") -> Finding:
    """Return the finding about the broker of a device whose windows are up to date."""
    _windows(directory, 1)
    return worst_finding(check_feed(_subject(directory, url, feed=feed)))


def test_an_unreachable_broker(tmp_path: Path) -> None:
    with AnsweringBroker({}) as broker:
        pass
    finding = _broker_finding(tmp_path, broker.url)
    assert (finding.code, "nothing listens there" in finding.what) == (ExitCode.NETWORK, True)


@pytest.mark.parametrize(
    "answers, grant, words, remedy",
    [
        ({5: REFUSED_5}, 1, "wrong user name or password", "feed.password_file"),
        ({4: ACCEPTED, 5: WRONG_VERSION}, 1, "MQTT 3.1.1 only", 'feed.version = "3.1.1"'),
        ({4: REFUSED}, 1, "MQTT 3.1.1 only", 'feed.version = "3.1.1"'),
        ({5: ACCEPTED_5}, 0x87, "not authorised to subscribe to plug/energy", "feed.meters"),
        ({}, 1, "does not answer as an MQTT broker", "port"),
    ],
    ids=["wrong password", "3.1.1", "closes for 5", "subscription refused", "no broker"],
)
def test_a_broker_that_does_not_serve_the_feed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    answers: dict[int, bytes],
    grant: int,
    words: str,
    remedy: str,
) -> None:
    monkeypatch.setattr("sottovoce_home.handshake._SESSION_SECONDS", 1.0)  # a closed connection is waited for
    with AnsweringBroker(answers, grant) as broker:
        finding = _broker_finding(tmp_path, broker.url)
    assert finding.code == ExitCode.NETWORK
    assert words in finding.what
    assert remedy in finding.remedy


def test_a_broker_without_tls_at_a_port_for_tls_is_told_no_password(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("hush")
    (tmp_path / "password").chmod(0o600)
    with AnsweringBroker({4: REFUSED}) as broker:
        url = broker.url.replace("mqtt:", "mqtts:")
        finding = _broker_finding(tmp_path, url, 'username = "feed"\npassword_file = "password"')
    assert "without TLS" in finding.what
    assert "mqtt://" in finding.remedy
    assert not any(b"hush" in body or b"feed" in body for body in broker.passwords)


def test_a_device_without_meters_is_not_checked(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    path.write_text('[agent]\nstate = "s"\n[data]\nsource = "npz:a"\nfeatures = 2\nclasses = 2\nexpected_records = 1\n')
    assert list(check_feed(Subject(path, load(path)))) == []


def test_a_meter_whose_messages_are_all_refused(tmp_path: Path, broker: str) -> None:
    now = int(time.time())
    with closing(WindowStore(tmp_path / "windows.db", 60, 400)) as store:
        store.write([Window("plug", now // 60 - 1, 12)], {}, {"plug": MeterActivity(now, now - 1000, "fell", 2)})
    result = list(check_feed(_subject(tmp_path, broker)))
    assert any(
        "none has been accepted for 17 minutes: fell" in item.what for item in result if item.level is Level.WARNING
    )
    assert any("2 new counts" in item.what for item in result)


def test_a_unit_that_looks_wrong(tmp_path: Path, broker: str) -> None:
    """A counter in Wh that is declared in kWh has no windows, but was observed."""
    facts = DayFacts(readings=1440, seconds=60.0, changes=1439, step=100.0, rise=8.4e6, span=86_000.0)
    with closing(WindowStore(tmp_path / "windows.db", 60, 400)) as store:
        store.write([], {}, observed={("plug", int(time.time()) // 86_400 - 1): facts})
    result = [item.what for item in check_feed(_subject(tmp_path, broker)) if item.level is Level.WARNING]
    assert any("is the unit Wh?" in what for what in result)


def test_a_meter_without_windows_whose_readings_are_refused(tmp_path: Path, broker: str) -> None:
    """A counter in Wh that is declared in kWh: all jump."""
    with closing(WindowStore(tmp_path / "windows.db", 60, 400)) as store:
        store.write([], {("plug", "jumped"): 1440})
    (finding,) = (item for item in check_feed(_subject(tmp_path, broker)) if "no window yet" in item.what)
    assert "1440 as jumped" in finding.what
    assert "feed run" not in finding.remedy


def test_a_counter_that_does_not_change_is_not_a_feed_that_does_not_run(tmp_path: Path, broker: str) -> None:
    now = int(time.time())
    with closing(WindowStore(tmp_path / "windows.db", 60, 400)) as store:
        store.write([Window("plug", now // 60 - 600, 12)], {}, {"plug": MeterActivity(now, now - 60, "", 0)})
    assert worst_finding(check_feed(_subject(tmp_path, broker))).level is Level.OK
