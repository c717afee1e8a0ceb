"""Detection of meters: from messages as tools publish them, and from those of a hostile broker, to tables that fit."""

import asyncio
import re
import tomllib
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sottovoce.config import FeedSection
from sottovoce.config.feed import BuiltInFormat, built_in_formats
from sottovoce.errors import ConfigError, ExitCode
from sottovoce_home.broker import BrokerRefused, BrokerSettings
from sottovoce_home.cli import detect
from sottovoce_home.detection import Detector, choose, describe, listen
from sottovoce_home.detection.readings import Notes
from sottovoce_home.meters import Arrival, Source, Value
from sottovoce_home.sources import build_sources

from tests.support.broker_answers import ACCEPTED, ACCEPTED_5, REFUSED_5, WRONG_VERSION, AnsweringBroker

HOMES = tomllib.loads((Path(__file__).parents[2] / "fixtures/broker_messages.toml").read_text())["home"]
NOW = 1_780_000_200.0


def hear(messages: Iterable[tuple[str, str]], retained: Iterable[tuple[str, str]] = (), rounds: int = 6) -> Detector:
    """Pass retained messages, and then six rounds of messages, 10 s apart."""
    detector = Detector(built_in_formats().values())
    for topic, payload in retained:
        detector.add(Arrival(topic, filled(payload, 0).encode(), True, 1000.0, NOW))
    for number in range(rounds):
        for topic, payload in messages:
            raw = filled(payload, number).encode()
            detector.add(Arrival(topic, raw, False, 1000.0 + 10 * number, NOW + 10 * number))
    return detector


def filled(payload: str, number: int) -> str:
    """Fill in numbers that grow, numbers that change their sign of growth, and times."""
    if payload.startswith("!"):
        return f"{float(payload[1:]) * (-1) ** number:.1f}"
    moment = NOW + 10 * number
    payload = payload.replace("@NOW@", f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%dT%H:%M:%S}")
    payload = payload.replace("@MS@", str(int(moment * 1000)))
    return re.sub(r"@([\d.]+)\+([\d.]+)@", lambda found: _grown(found[1], found[2], number), payload)


def _grown(start: str, step: str, number: int) -> str:
    decimals = max(len(text.partition(".")[2]) for text in (start, step))
    return f"{float(start) + float(step) * number:.{decimals}f}"


def tables(detector: Detector) -> tuple[list[Source], str]:
    """Return the meters of the printed tables, which must be valid, and the text."""
    text = "\n".join(describe(detector, choose(detector), shows_readings=False))
    feed = tomllib.loads(text).get("feed", {})
    return build_sources(msgspec.convert(feed, FeedSection)), text


def values(pairs: list[list[str]]) -> set[Value]:
    return {Value(topic, tuple(path.split(".")) if path else ()) for topic, path in pairs}


@pytest.mark.parametrize("home", HOMES, ids=[home["name"] for home in HOMES])
def test_each_home_gets_the_table_of_its_meter(home: dict[str, Any]) -> None:
    (source,), text = tables(hear(home["messages"], home.get("retained", ())))
    assert set(source.values) == values(home["reads"]), text
    assert (source.factor, source.identity) == (home["wh"], home.get("id", "")), text


@pytest.mark.parametrize("form", built_in_formats().values(), ids=built_in_formats())
def test_each_built_in_format_is_found_by_its_example(form: BuiltInFormat) -> None:
    """The example of `ams-power` contains a counter, too, which is better; `p1-time` reads the messages of `p1`."""
    (source,), text = tables(hear([(message.topic, message.payload) for message in form.example.messages]))
    expected = {"ams-power": "ams", "p1-time": "p1"}.get(form.name, form.name)
    assert f'format = "{expected}"' in text
    assert source.identity == (form.example.id or "")
    assert all(f'{word} = "{name}"' in text for word, name in form.example.names.items())


def test_a_gas_meter_of_the_same_tool_is_no_meter() -> None:
    event = '{"model":"SCMplus","EndpointID":68211547,"Consumption":@6886+1@,"MeterType":"Gas"}'
    assert not tables(hear([("rtl_433/pi/events", event)]))[0]


def test_an_analogue_input_of_tasmota_is_no_meter() -> None:
    sources, _ = tables(hear([("tele/x/SENSOR", '{"ANALOG":{"A0":@512+1@},"BH1750":{"Illuminance":@7+1@}}')]))
    assert not sources


def test_there_are_enough_kinds_of_homes() -> None:
    assert len(HOMES) >= 16


def test_all_meters_of_one_broker_are_told_apart() -> None:
    homes = [home for home in HOMES if "vzlogger" not in home["name"]]
    detector = hear(
        [message for home in homes for message in home["messages"]],
        [message for home in homes for message in home.get("retained", ())],
    )
    sources, text = tables(detector)
    assert {value for one in sources for value in one.values} == {v for home in homes for v in values(home["reads"])}
    assert len({one.meter for one in sources}) == len(homes), text


def test_retained_messages_alone_are_enough_but_uncertain() -> None:
    (home,) = [home for home in HOMES if "Zigbee2MQTT plug" in home["name"]]
    (source,), text = tables(hear((), [*home["retained"], *home["messages"]]))
    assert set(source.values) == values(home["reads"])
    assert "retained" in text


def test_a_home_without_meters_gets_no_table() -> None:
    lights = [
        ("zigbee2mqtt/hall light", '{"brightness":120,"linkquality":87,"state":"ON"}'),
        ("weather/temperature", "@21.5+0.1@"),
        ("esp/sensor/uptime/state", "@1000+10@"),
        ("shop/counter/visits", "@17+1@"),
        ("sottovoce/home/a1/forecast", '{"energy":12.5,"kwh":3}'),
    ]
    sources, text = tables(hear(lights))
    assert not sources
    assert "looks like a meter" not in text


@pytest.mark.parametrize(
    "topic, payload",
    [
        ("p1/telegram", "/XMX5LGBBFFB231222256\r\n1-0:1.8.1(007881.115*kWh)"),
        ("house/meter", "123.4 kWh"),
        ("house/meter/power_w", "@412+1@"),
    ],
)
def test_a_topic_that_cannot_be_read_is_named(topic: str, payload: str) -> None:
    sources, text = tables(hear([(topic, payload)]))
    assert not sources
    (line,) = [line for line in text.splitlines() if "cannot be read" in line]
    assert topic in line


def test_a_second_tariff_that_was_not_heard_is_named() -> None:
    _, text = tables(hear([("dsmr/reading/electricity_delivered_1", "@1050.390+0.002@")]))
    assert "unsure: nothing was heard on dsmr/reading/electricity_delivered_2" in text


def test_times_without_a_zone_get_one() -> None:
    home = [("glow/A1B2C3/SENSOR/electricitymeter", HOMES[1]["messages"][0][1].replace("@NOW@Z", "@NOW@"))]
    (source,), text = tables(hear(home))
    assert source.time_zone == "UTC"
    assert "no zone" in text


def test_readings_are_shown_only_to_a_terminal() -> None:
    detector = hear([("tele/plug/SENSOR", '{"ENERGY":{"Total":@8310.123+0.001@}}')])
    chosen = choose(detector)
    assert not any("8310" in line or "8,310" in line for line in describe(detector, chosen, shows_readings=False))
    assert any("8,310" in line for line in describe(detector, chosen, shows_readings=True))


def test_an_interrupt_shows_what_is_known(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    async def interrupted(_: object, detector: Detector, seconds: float) -> list[str]:
        assert seconds == 600
        detector.add(Arrival("tele/plug/SENSOR", b'{"ENERGY":{"Total":1.5}}', False, 1.0, NOW))
        raise KeyboardInterrupt

    monkeypatch.setattr("sottovoce_home.detection.listen", interrupted)
    code = detect(None, "mqtt://127.0.0.1:1883", None, None, None, None, 600.0)
    assert (code, 'format = "tasmota"' in capsys.readouterr().out) == (ExitCode.INTERRUPTED, True)


@pytest.mark.parametrize("url, key", [(None, "--broker"), ("http://x", "--broker"), ("mqtt://u:p@x", "--broker")])
def test_a_broker_is_required(url: str | None, key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        detect(None, url, None, None, None, None, 1.0)


def test_a_password_needs_a_user_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--username"):
        detect(None, "mqtt://127.0.0.1", None, tmp_path / "password", None, None, 1.0)


def test_a_certificate_authority_needs_tls(tmp_path: Path) -> None:
    """The password would be sent in the clear, although the owner expects a certificate to be checked."""
    with pytest.raises(ConfigError, match=r"feed\.ca"):
        detect(None, "mqtt://127.0.0.1", None, None, tmp_path / "ca.pem", None, 1.0)


@pytest.mark.parametrize("url, user", [(None, "owner"), ("mqtt://other.invalid", None)])
def test_a_file_s_password_is_sent_to_its_own_broker_only(
    url: str | None, user: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections: list[Any] = []

    async def refuse(connection: Any, detector: Detector, seconds: float) -> list[str]:
        connections.append(connection)
        raise KeyboardInterrupt

    monkeypatch.setattr("sottovoce_home.detection.listen", refuse)
    (tmp_path / "password").write_text("secret")
    (tmp_path / "password").chmod(0o600)
    config = tmp_path / "agent.toml"
    config.write_text(
        'agent.state = "state"\ndata.source = "feed:mqtt://home.invalid"\n[feed]\nbroker = "mqtt://home.invalid"\n'
        'username = "owner"\npassword_file = "password"\n'
    )
    detect(config, url, None, None, None, None, 1.0)
    assert [connection.username for connection in connections] == [user]


def test_topics_cannot_write_to_the_terminal_or_into_the_tables() -> None:
    evil = '\x1b]0;x\x07"}\n[[feed.meters]]\nname = "x\u202e\x9b31m'
    detector = hear(
        [
            (f"tele/{evil}/SENSOR", '{"ENERGY":{"Total":@310.1+0.1@}}'),
            (f"house/{evil}y/energy_import", "@310.1+0.1@"),
            (f"p1/{evil}", "1-0:1.8.1(007881.115*kWh)"),
        ]
    )
    sources, text = tables(detector)
    assert len(sources) == 2
    assert all(one.isprintable() or one == "\n" for one in text)


@pytest.mark.parametrize(
    "entity",
    [
        {"state_topic": "a/b", "value_template": "{{ value" + 20_000 * " " + "}"},
        {"state_topic": 10_000 * "~", "~": 10_000 * "b"},
        {"state_topic": 200 * "~", "~": 200 * "b"},
    ],
    ids=["template", "base", "topic"],
)
def test_a_long_discovery_message_takes_neither_time_nor_memory(entity: dict[str, str]) -> None:
    """The template would take 7 s, and the message of 20 kB become a topic of 100 MB."""
    detector = hear([], [("homeassistant/sensor/a/config", msgspec.json.encode(entity).decode())])
    assert detector.notes == Notes()


def test_what_a_broker_can_make_the_detector_hold_is_bounded() -> None:
    detector = Detector(built_in_formats().values())
    for number in range(2000):
        energy = ",".join(f'"energy_{key}":{number}.5' for key in range(10))
        detector.add(
            Arrival(
                f"tele/x{number}/SENSOR", f'{{"SML":{{{energy}}},"ENERGY":{{"Total":1}}}}'.encode(), False, 1.0, NOW
            )
        )
    assert len(detector.series) + len(detector.leaves) < 2100
    assert len(detector.topics) <= 4096
    assert detector.is_full
    _, text = tables(detector)
    assert "more was heard" in text
    assert len(text) < 40_000


def test_a_number_with_a_long_key_is_not_stored() -> None:
    detector = hear([("meter/x", msgspec.json.encode({"energy": 1.5, "energy" * 10_000: {"energy": 2.5}}).decode())])
    assert [path for _, path in detector.leaves] == [("energy",)]


@pytest.mark.parametrize("payload", [b"[" * 60_000, b"\xff\xfe", b"", b"1e999", b"NaN", b"x" * 70_000, b'{"a":' * 9000])
def test_malformed_payloads_are_ignored(payload: bytes) -> None:
    detector = Detector(built_in_formats().values())
    for topic in ("vzlogger/chn0/raw", "homeassistant/sensor/x/config", "tele/x/SENSOR", "a" * 60_000, ""):
        detector.add(Arrival(topic, payload, False, 1.0, NOW))
    assert not choose(detector).proposals


def test_a_broker_that_refuses_everything_is_heard_on_known_topics_and_an_old_one_by_3_1_1() -> None:
    def remarks(answers: dict[int, bytes], grant: int = 1) -> list[str]:
        detector = Detector(built_in_formats().values())
        with AnsweringBroker(answers, grant) as broker:
            settings = BrokerSettings("127.0.0.1", broker.port, None, None, None, True, "sottovoce-feed-detect")
            return asyncio.run(listen(settings, detector, 0.01))

    (older,) = remarks({4: ACCEPTED, 5: WRONG_VERSION})
    assert 'feed.version = "3.1.1"' in older
    with pytest.raises(BrokerRefused, match="password"):
        remarks({4: ACCEPTED, 5: REFUSED_5})
    with pytest.raises(BrokerRefused, match="#"):
        remarks({5: ACCEPTED_5}, 0x87)
