"""`[feed]`: each error is named, with line and remedy."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from sottovoce.config import load
from sottovoce.config.task_config import config_for_task
from sottovoce.errors import ConfigError
from sottovoce_home.sources import broker_settings, broker_url, build_sources

HEAD = """
[agent]
state = "state"
[data]
source = "feed:mqtt://home.example:1884"
windows = [0, 40000]
features = 14
classes = 2
expected_records = 100
"""
GLOW = '[[feed.meters]]\nname = "house"\nformat = "glow"\nnames = { device = "C8" }\n'
METER = '[[feed.meters]]\nname = "house"\nformat = "dsmr-reader"\n'
OWN = """
[[feed.formats]]
name = "own"
kind = "counter"
payload = "json"
unit = "kWh"
values = [{ topic = "home/{room}/energy", path = "a.b" }]
"""


def write_config(directory: Path, text: str, head: str = HEAD) -> Path:
    path = directory / "agent.toml"
    path.write_text(head + text)
    return path


def test_one_broker_for_the_data_source_and_the_feed(tmp_path: Path) -> None:
    config = load(write_config(tmp_path, METER))
    assert broker_url(config) == "mqtt://home.example:1884"
    assert config.data.source == f"feed:mqtt://home.example:1884#store={tmp_path / 'windows.db'}"
    assert config.feed.file == tmp_path / "windows.db"
    settings = broker_settings(config, "abc")
    assert (settings.host, settings.port, settings.tls) == ("home.example", 1884, None)


def test_another_source_with_a_separate_broker(tmp_path: Path) -> None:
    head = HEAD.replace("feed:mqtt://home.example:1884", "npz:records.npz").replace("windows = [0, 40000]\n", "")
    config = load(write_config(tmp_path, '[feed]\nbroker = "mqtts://[::1]"\n' + METER, head))
    settings = broker_settings(config, "abc")
    assert (settings.host, settings.port) == ("::1", 8883)
    assert settings.tls is not None
    assert settings.tls.check_hostname
    with pytest.raises(ConfigError, match=r"feed\.broker: missing"):
        broker_url(load(write_config(tmp_path, METER, head)))


def test_the_source_s_options_are_kept(tmp_path: Path) -> None:
    head = HEAD.replace("1884", "1884#meter=house")
    store = tmp_path / "windows.db"
    assert (
        load(write_config(tmp_path, METER, head)).data.source
        == f"feed:mqtt://home.example:1884#store={store}&meter=house"
    )


def test_names_are_filled_in(tmp_path: Path) -> None:
    meter = '[[feed.meters]]\nname = "house"\nformat = "own"\nnames = { room = "hall.1" }\nscale = 2\nmax_power = 5\n'
    (source,) = build_sources(load(write_config(tmp_path, OWN + meter)).feed)
    assert [(value.topic, value.path) for value in source.values] == [("home/hall.1/energy", ("a", "b"))]
    assert (source.factor, source.max_watts, source.longest_gap) == (2000.0, 5000.0, 600.0)


@pytest.mark.parametrize(
    "text, words",
    [
        (METER.replace("dsmr-reader", "dsmr"), "dsmr-reader, esp8266-p1meter"),
        (METER.replace("dsmr-reader", "tasmota-smll"), "did you mean tasmota-sml? choose one of"),
        (METER.replace("dsmr-reader", "tasmota-sml-key") + 'names = { device = "d", sensor = "S" }', "missing key: "),
        (
            METER.replace("dsmr-reader", "tasmota-sml-key") + 'names = { device = "d", sensor = "S" }',
            "one of total_in, ",
        ),
        (METER.replace("dsmr-reader", "glow"), "missing device"),
        (METER + 'names = { device = "x" }', "placeholder"),
        (METER + 'id = "1"', "meter id"),
        (
            METER.replace("dsmr-reader", "rtl-433") + 'names = { host = "pi" }',
            "other meters",
        ),
        (METER + METER, "already"),
        (METER + "longest_gap = 1801", "1800 s"),
        (METER + "replay = true", "measurement"),
        (METER + 'latest = "2d"', "measurement"),
        (METER + 'latest = "2 days"', "latest"),
        (METER + "max_power = 0", "meters.0.max_power"),
        (METER + 'topic = "x"', "unknown key"),
        (METER.replace("house", "My House"), "feed.meters.0.name"),
        (METER + 'time_zone = "Europe/Berlin"\n', "feed.meters.0.time_zone"),
        (GLOW + 'time_zone = "Europe/Nowhere"\n', "feed.meters.0.time_zone"),
        (METER + "net = true\n" + METER.replace("house", "house-export"), "feed.meters.1.name"),
        ("[feed]\nwindow = 1801\n" + METER, "whole number of windows"),
        ('[feed]\nbroker = "http://x"\n' + METER, "feed.broker"),
        ('[feed]\nbroker = "mqtt://x:0"\n' + METER, "65535"),
        ('[feed]\nbroker = "mqtt://me:secret@x"\n' + METER, "feed.broker"),
        ('[feed]\npassword_file = "p"\n' + METER, "password_file"),
        (OWN.replace("kWh", "kW"), "kWh"),
        (OWN.replace('"counter"', '"gauge"'), "kW"),
        (OWN.replace(', path = "a.b"', ""), "JSON"),
        (OWN.replace('"json"', '"plain"'), "plain"),
        (OWN.replace("a.b", "a..b"), "path"),
        (OWN.replace("energy", "#/energy"), "# must stand alone at the end"),
        (OWN.replace("energy", "energy#"), "# must stand alone at the end"),
        (OWN.replace("home/", "$SYS/"), "topic"),
        (OWN.replace("energy", "+energy"), "formats.0.values.0.topic: +"),
        (METER.replace("dsmr-reader", "glow") + 'names = { device = "plug/#" }', "meters.0.names: #"),
        (METER.replace("dsmr-reader", "glow") + 'names = { device = "plug+" }', "meters.0.names: +"),
        (METER.replace("dsmr-reader", "glow") + 'names = { device = "a\\u0000" }', "filter"),
        ('[feed]\nbroker = "mqtt://x:65536"\n' + METER, "65535"),
        (OWN.replace('"own"', '"glow"'), "already"),
        (OWN + OWN, "already"),
        (OWN.replace("[[feed.formats]]", "[[feed.formats]]\nscale = -1"), "scale"),
    ],
)
def test_each_error_is_named(tmp_path: Path, text: str, words: str) -> None:
    tomllib.loads(HEAD + text)
    with pytest.raises(ConfigError) as exc_info:
        load(write_config(tmp_path, text))
    assert words in str(exc_info.value)
    assert "agent.toml, line" in str(exc_info.value)


@pytest.mark.parametrize(
    "source", ["feed:mqtt://u:secretpw@host:1883", "feed:mqtt://u:12#secretpw@host", "feed:mqtt://host:65536", "feed:x"]
)
def test_a_source_is_a_broker_without_credentials(tmp_path: Path, source: str) -> None:
    head = HEAD.replace("feed:mqtt://home.example:1884", source)
    with pytest.raises(ConfigError, match=r"line 5: data\.source: .*feed\.username.*feed\.password_file") as exc_info:
        load(write_config(tmp_path, METER, head))
    assert "secretpw" not in str(exc_info.value)
    assert source not in str(exc_info.value)


def test_a_wildcard_may_be_a_whole_level(tmp_path: Path) -> None:
    meter = METER.replace("dsmr-reader", "glow") + 'names = { device = "+" }'
    (source,) = build_sources(load(write_config(tmp_path, meter)).feed)
    assert source.values[0].topic == "glow/+/SENSOR/electricitymeter"


def test_a_password_file_is_only_for_its_owner(tmp_path: Path) -> None:
    path = write_config(tmp_path, '[feed]\nusername = "me"\npassword_file = "secret"\n' + METER)
    with pytest.raises(ConfigError, match="cannot read"):
        broker_settings(load(path), "abc")
    secret = tmp_path / "secret"
    secret.write_text("hush\n")
    secret.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        broker_settings(load(path), "abc")
    secret.chmod(0o600)
    assert broker_settings(load(path), "abc").password == "hush"


def test_invalid_certificates_are_named(tmp_path: Path) -> None:
    head = HEAD.replace("mqtt://home.example:1884", "mqtts://home.example")
    path = write_config(tmp_path, '[feed]\nca = "ca.pem"\n' + METER, head)
    for content in (None, "no certificate"):
        if content is not None:
            (tmp_path / "ca.pem").write_text(content)
        with pytest.raises(ConfigError, match=r"feed\.ca"):
            broker_settings(load(path), "abc")


@pytest.mark.papers
def test_only_forecasting_learners_accept_a_feed(tmp_path: Path) -> None:
    learner = '[learner]\nname = "dp-dpsgd"\n[privacy]\nunit = "record"\n'
    words = r"learner\.name: a feed requires forecasts, which dp-dpsgd does not support; choose one of"
    with pytest.raises(ConfigError, match=words):
        load(write_config(tmp_path, METER, HEAD + learner))


@pytest.mark.parametrize(
    "old, new, named",
    [
        (
            "expected_records = 100",
            "expected_records = 10000",
            r"data\.expected_records",
        ),
        ("home.example:1884", "home.example:1884#test=0.25", r"data\.source"),
    ],
)
def test_a_followed_feed_requires_days(tmp_path: Path, old: str, new: str, named: str) -> None:
    head = HEAD.replace(old, new) if old else HEAD + new
    assert load(write_config(tmp_path, METER)).follows
    assert getattr(load(write_config(tmp_path, METER)).learner, "mixing", None) == "contributions"
    with pytest.raises(ConfigError, match=named):
        load(write_config(tmp_path, METER, head))
    by_record = '[privacy]\nunit = "record"\n'
    assert not load(write_config(tmp_path, by_record + METER, head)).follows


def test_a_feed_is_also_followed_if_the_unit_is_the_device(tmp_path: Path) -> None:
    by_device = '[privacy]\nunit = "device"\n'
    assert load(write_config(tmp_path, by_device + METER)).follows
    with pytest.raises(ConfigError, match=r"data\.windows"):
        load(write_config(tmp_path, by_device + METER, re.sub("windows = .*\n", "", HEAD)))


def test_a_home_that_follows_signed_tasks_states_only_its_own_facts(tmp_path: Path) -> None:
    path = tmp_path / "elm.toml"
    short = (
        'agent.state = "elm"\ndata.source = "feed:mqtt://home"\n'
        'feed.meters = [{ name = "house", format = "glow", names = { device = "C8" } }]\n'
    )
    path.write_text(short)
    config = load(path)
    assert config.vault.tasks == "signed", "nothing is released before a task that the fleet has signed"
    assert (config.unit, config.data.classes) == ("device", 1)
    path.write_text(short + 'vault.tasks = "any"\n')
    with pytest.raises(ConfigError, match=r"data\.features|data: "):
        load(path)
    path.write_text(short + "data.classes = 1\n")
    with pytest.raises(ConfigError, match="features"):
        load(path)


def test_a_meter_s_task_without_a_unit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "elm.toml"
    path.write_text('agent.state = "elm"\ndata.source = "feed:mqtt://home"\n')
    facts = {"features": 10, "classes": 1, "expected_records": 44, "transform": "none", "windows": [20_454, 20_900]}
    tables: dict[str, dict[str, Any]] = {"data": facts, "learner": {"model": "ridge"}, "privacy": {}}
    with pytest.raises(ConfigError, match=r"privacy\.unit"):
        config_for_task(load(path), tables, 1)
    for unit in ("device", "window"):
        assert config_for_task(load(path), {**tables, "privacy": {"unit": unit}}, 1).unit == unit
