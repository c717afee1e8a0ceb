"""Configuration sections for a home's MQTT broker, meters and Home Assistant."""

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from msgspec import Meta, Struct

from sottovoce.days import EXPORT
from sottovoce.suggestions import LARGEST, invalid_key, suggest_name

BROKER = r"^mqtts?://(\[[0-9a-fA-F:]+\]|[^:/@#\s]+)(:[0-9]{1,5})?/?$"
OWN_SOURCES = ("homewizard", "modbus", "p1", "sml")
"""Names of the meter sources that the home's feed provides itself."""
_DAY = 86_400
_DEFAULT_GAP = 600.0
_FORMATS = Path(__file__).with_name("formats")
_LATENESS = re.compile(r"([1-9][0-9]{0,3})([smhd])")
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_USUAL_LATENESS = 900.0
_PLACEHOLDER = re.compile(r"\{([a-z]+)\}")

Name = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")]
Topic = Annotated[str, Meta(min_length=1, max_length=256, pattern=r"^[^$\x00][^\x00]*$")]
Dotted = Annotated[str, Meta(min_length=1, max_length=256, pattern=r"^[^.\x00]+(\.[^.\x00]+)*$")]


class ValueSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[[feed.formats.values]]`: where to find one number in the messages."""

    topic: Annotated[
        Topic, Meta(description="topic filter, in which each {word} is replaced with its value in the meter's `names`")
    ]
    path: Annotated[
        Dotted | None, Meta(description="json: keys and indices that lead to the value, separated by dots")
    ] = None


class FormatSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[[feed.formats]]`: how a tool publishes a meter's readings."""

    name: Annotated[Name, Meta(description="name of the format")]
    kind: Annotated[Literal["counter", "gauge"], Meta(description="counter: energy that only increases; gauge: power")]
    payload: Annotated[Literal["plain", "json"], Meta(description="plain: the payload is one number")]
    unit: Annotated[Literal["Wh", "kWh", "W", "kW"], Meta(description="unit of values after `scale` is applied")]
    scale: Annotated[float, Meta(gt=0, le=LARGEST, description="factor by which a value is multiplied")] = 1.0
    resolution: Annotated[
        float,
        Meta(ge=0, le=LARGEST, description="counter: smallest increment of the counter, in its unit, if that is large"),
    ] = 0.0
    values: Annotated[
        tuple[ValueSection, ...],
        Meta(min_length=1, max_length=16, description="values whose sum is the meter's reading"),
    ]
    id: Annotated[Dotted | None, Meta(description="json: path of the value that identifies the meter in a message")] = (
        None
    )
    time: Annotated[
        Dotted | None, Meta(description="json: path of the measurement time; if not set, the arrival time is used")
    ] = None
    time_format: Annotated[
        Literal["iso8601", "seconds", "milliseconds"],
        Meta(description="form of that time; seconds and milliseconds count from 1970"),
    ] = "iso8601"

    def __post_init__(self) -> None:
        """Check that counters measure energy, that gauges measure power, and that JSON formats alone have paths."""
        energy = self.unit.endswith("h")
        if energy != (self.kind == "counter"):
            raise invalid_key(
                "unit", f"a {self.kind} must be in {'Wh or kWh' if self.kind == 'counter' else 'W or kW'}"
            )
        for i, value in enumerate(self.values):
            if (value.path is None) == (self.payload == "json"):
                is_missing = value.path is None
                problem = "missing; set the value's path in the JSON" if is_missing else "a plain payload has no path"
                raise invalid_key(f"values[{i}].path", problem)
            if defect := _topic_defect(value.topic):
                raise invalid_key(f"values[{i}].topic", defect)
        for key in ("id", "time"):
            if self.payload == "plain" and getattr(self, key) is not None:
                raise invalid_key(key, "a plain payload has no path; remove this key")

    @property
    def placeholders(self) -> list[str]:
        """Placeholders for which a meter's `names` must have values, in order."""
        texts = [text for value in self.values for text in (value.topic, value.path or "")]
        return list(dict.fromkeys(word for text in texts for word in _PLACEHOLDER.findall(text)))


class MessageSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[example.messages]`: a message as a tool publishes it."""

    topic: Topic
    payload: str


class ExampleSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[example]`: messages of one meter, recorded or published.

    Attributes:
        messages: one message for each of the format's topics.
        reading: what they say, in Wh, or in W for a power.
        names: values for the format's `{words}`.
        id: the meter's number in the messages.
    """

    messages: tuple[MessageSection, ...]
    reading: float
    names: dict[str, str] = {}
    id: str | None = None


class BuiltInFormat(FormatSection, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A file in `formats`: a format that comes with Sottovoce, with an example.

    Attributes:
        reads: the tools and meters whose messages have this format.
        example: messages in this format, which tests and `docs/reference/feeds.md` use.
        usual: usual values for some of the format's `{words}`.
    """

    reads: str
    example: ExampleSection
    usual: dict[str, tuple[str, ...]] = {}


class MeterSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[[feed.meters]]`: a meter in this home."""

    name: Annotated[Name, Meta(description="local name of the meter; nothing else identifies it in store and log")]
    format: Annotated[Name, Meta(description="name of a built-in format, or of one in [[feed.formats]]")]
    names: Annotated[
        dict[Annotated[str, Meta(pattern=r"^[a-z]+$")], Annotated[str, Meta(min_length=1, max_length=128)]],
        Meta(description="values for the format's {words}"),
    ] = {}
    id: Annotated[
        Annotated[str, Meta(min_length=1, max_length=128)] | None,
        Meta(description="value that identifies the meter in its messages; required if the format has a path for it"),
    ] = None
    scale: Annotated[
        float, Meta(gt=0, le=LARGEST, description="additional factor, such as a current transformer's")
    ] = 1.0
    max_power: Annotated[float, Meta(gt=0, le=10_000, description="largest plausible power, in kW")] = 100.0
    longest_gap: Annotated[
        Annotated[float, Meta(ge=1, le=_DAY)] | None,
        Meta(
            description="longest time between two readings, in seconds, that is not a gap; by default 600, or up to a "
            "window for a meter whose messages are regularly further apart"
        ),
    ] = None
    net: Annotated[
        bool,
        Meta(
            description="the counter also falls, because energy fed in is subtracted; a window with more fed in than "
            "consumed counts as 0, and what is fed in is the series NAME-export"
        ),
    ] = False
    time_zone: Annotated[
        Annotated[str, Meta(min_length=1, max_length=64)] | None,
        Meta(
            description="zone of measurement times that state none, such as Europe/Berlin; if not "
            "set, these are refused"
        ),
    ] = None
    latest: Annotated[
        Annotated[str, Meta(pattern=f"^{_LATENESS.pattern}$")] | None,
        Meta(
            description="greatest age at which a measurement may arrive, in s, m, h or d, such as 2d; a day is used "
            "only when it has been over for so long; needs a format with time; by default 15m"
        ),
    ] = None
    replay: Annotated[
        bool, Meta(description="accept times in the past, to replay a recorded feed; needs a format with time")
    ] = False


class HomeAssistantSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[feed.home_assistant]`: how this device appears in Home Assistant."""

    enabled: Annotated[bool, Meta(description="show the agent in Home Assistant")] = False
    discovery_prefix: Annotated[
        str,
        Meta(
            pattern=r"^[A-Za-z0-9_/-]+$",
            max_length=64,
            description="discovery prefix, as in Home Assistant's MQTT options",
        ),
    ] = "homeassistant"
    name: Annotated[str, Meta(min_length=1, max_length=64, description="device name")] = "Sottovoce"
    period: Annotated[float, Meta(ge=1, le=3600, description="seconds between two published states")] = 60.0
    tasks: Annotated[
        bool,
        Meta(description="show the fleet's newest task, with a switch for anyone who may publish to this broker"),
    ] = False
    forecast: Annotated[
        bool,
        Meta(
            description="publish the forecast of the next 48 half hours, which the broker retains until this is false"
        ),
    ] = False
    street: Annotated[
        bool,
        Meta(
            description="publish the mean day of all homes, the newest result of the fleet's secure sums, retained "
            "likewise"
        ),
    ] = False


class FeedSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[feed]`: the sources of `sottovoce feed run`, and the windows that it stores."""

    broker: Annotated[
        Annotated[str, Meta(pattern=BROKER)] | None,
        Meta(
            description="mqtt://HOST:PORT or mqtts://HOST:PORT of the home's broker, ports 1883 and 8883 by default; "
            "by default that of data.source"
        ),
    ] = None
    source: Annotated[
        Name | None,
        Meta(description="meter source instead of the broker: p1, sml, homewizard, modbus, or one of another package"),
    ] = None
    settings: Annotated[dict[str, Any], Meta(description="settings for the meter source in `source`")] = {}
    version: Annotated[Literal["5", "3.1.1"], Meta(description="MQTT version of the broker")] = "5"
    ca: Annotated[
        Path | None, Meta(description="mqtts: PEM file of the CA certificates to trust; by default the system's")
    ] = None
    username: Annotated[str | None, Meta(description="user name, if the broker requires one")] = None
    password_file: Annotated[Path | None, Meta(description="file with the password, readable only by its owner")] = None
    store: Annotated[
        Path | None,
        Meta(
            description="SQLite file with the windows, created with mode 0600; by default windows.db beside this file"
        ),
    ] = None
    window: Annotated[
        int,
        Meta(ge=60, le=_DAY, description="window length in seconds; a day must consist of a whole number of windows"),
    ] = 1800
    keep_days: Annotated[
        int,
        Meta(
            ge=1,
            le=36_500,
            description="whole days for which windows are stored; older ones are deleted and overwritten on disk, but "
            "not those of a replayed meter",
        ),
    ] = 400
    clock_wait: Annotated[
        float,
        Meta(
            ge=0,
            le=_DAY,
            description="seconds since the device's start during which readings without a time of their own wait for "
            "the clock to be synchronised; 0 for a device whose clock is set without NTP",
        ),
    ] = 3600.0
    meters: Annotated[tuple[MeterSection, ...], Meta(max_length=64, description="the meters in this home")] = ()
    formats: Annotated[
        tuple[FormatSection, ...], Meta(max_length=64, description="formats beside the built-in ones")
    ] = ()
    home_assistant: HomeAssistantSection = HomeAssistantSection()

    def __post_init__(self) -> None:
        """Check the formats, and that every meter has all the keys that its format requires."""
        if _DAY % self.window:
            raise invalid_key("window", "a day must be a whole number of windows; use 1800 for half-hours")
        if self.settings and self.source is None:
            raise invalid_key("settings", "settings apply to feed.source, which is not set; remove them")
        if self.broker is not None and not is_broker_url(self.broker):
            raise invalid_key("broker", "the port must be between 1 and 65535")
        if self.password_file is not None and self.username is None:
            raise invalid_key("username", "required with password_file")
        format_names = [declared.name for declared in self.formats]
        for i, name in enumerate(format_names):
            if name in format_names[:i] or (_FORMATS / f"{name}.toml").exists():
                raise invalid_key(f"formats[{i}].name", "a format with this name already exists; choose another name")
        meter_names = [meter.name for meter in self.meters]
        for i, meter in enumerate(self.meters):
            if meter.name in meter_names[:i]:
                raise invalid_key(f"meters[{i}].name", "a meter with this name already exists; choose another name")
            self._check(meter, f"meters[{i}]")

    def _check(self, meter: MeterSection, key: str) -> None:
        known_formats = [*built_in_formats(), *(declared.name for declared in self.formats)]
        if meter.format not in known_formats:
            similar = suggest_name(meter.format, known_formats)
            raise invalid_key(
                f"{key}.format",
                f"unknown format; {'' if similar is None else f'did you mean {similar}? '}choose one of "
                f"{', '.join(known_formats)}",
            )
        meter_format = self.find_format(meter)
        if missing := [placeholder for placeholder in meter_format.placeholders if placeholder not in meter.names]:
            usual = meter_format.usual.get(missing[0], ()) if isinstance(meter_format, BuiltInFormat) else ()
            raise invalid_key(
                f"{key}.names",
                f"missing {missing[0]}: {meter.format} requires {', '.join(meter_format.placeholders)}"
                + (f"; {missing[0]} is usually one of {', '.join(usual)}" if usual else ""),
            )
        if unknown := [placeholder for placeholder in meter.names if placeholder not in meter_format.placeholders]:
            needed = ", ".join(meter_format.placeholders) or "none"
            raise invalid_key(f"{key}.names", f"{unknown[0]} is not a placeholder; {meter.format} requires {needed}")
        for value in meter_format.values:
            topic = fill_placeholders(value.topic, meter.names)
            if defect := _topic_defect(topic):
                raise invalid_key(f"{key}.names", f"{defect}, but {value.topic} becomes {topic!r}")
        if meter_format.id is not None and meter.id is None:
            raise invalid_key(
                f"{key}.id", f"missing: {meter.format} messages may come from other meters too; set this meter's number"
            )
        if meter_format.id is None and meter.id is not None:
            raise invalid_key(f"{key}.id", f"{meter.format} messages do not contain a meter id; remove this key")
        if self.longest_gap(meter) > self.window:
            raise invalid_key(f"{key}.longest_gap", f"longer than a window of {self.window} s; choose at most that")
        if meter.time_zone is not None and (meter_format.time is None or meter_format.time_format != "iso8601"):
            raise invalid_key(
                f"{key}.time_zone", f"{meter.format} messages contain no times that need a time zone; remove this key"
            )
        if meter.time_zone is not None and not is_time_zone(meter.time_zone):
            raise invalid_key(
                f"{key}.time_zone", f"this system has no time zone {meter.time_zone}; use, for example, Europe/Berlin"
            )
        if meter.name.endswith(EXPORT):
            raise invalid_key(
                f"{key}.name",
                f"names that end in {EXPORT} are reserved for the energy that a net meter exports; choose another name",
            )
        if meter.latest is not None and meter_format.time is None:
            raise invalid_key(f"{key}.latest", f"{meter.format} messages contain no measurement times; remove this key")
        if meter.replay and meter_format.time is None:
            raise invalid_key(f"{key}.replay", f"{meter.format} messages contain no measurement times; remove this key")

    @property
    def file(self) -> Path:
        """Path of the file in which windows are stored."""
        return self.store or Path("windows.db")

    def longest_gap(self, meter: MeterSection) -> float:
        """Return the longest time, in seconds, between two of a meter's readings that is not treated as a gap."""
        return meter.longest_gap or min(_DEFAULT_GAP, float(self.window))

    def latest(self, meter: MeterSection) -> float:
        """Return the greatest age, in seconds, at which a meter's measurements are accepted."""
        if meter.latest is None or (match := _LATENESS.fullmatch(meter.latest)) is None:
            return _USUAL_LATENESS
        return float(int(match[1]) * _UNIT_SECONDS[match[2]])

    @property
    def lateness(self) -> float:
        """Seconds after the end of a day until all meters' measurements of that day have arrived, if any is late."""
        return max((self.latest(meter) for meter in self.meters if meter.latest is not None), default=0.0)

    def find_format(self, meter: MeterSection) -> FormatSection:
        """Return a meter's format, which is declared in the configuration or built in."""
        declared_formats = {meter_format.name: meter_format for meter_format in self.formats}
        return declared_formats.get(meter.format) or built_in_formats()[meter.format]


def fill_placeholders(text: str, names: Mapping[str, str]) -> str:
    """Return a topic or path with each {word} replaced by the meter's value for it."""
    return _PLACEHOLDER.sub(lambda match: names.get(match[1], match[0]), text)


def _topic_defect(topic: str) -> str | None:
    """Return why a broker would refuse a topic filter; None if the filter is valid."""
    *parents, last = topic.split("/")
    if "#" in "".join(parents) or ("#" in last and last != "#"):
        return "# must stand alone at the end of a filter"
    if any("+" in level and level != "+" for level in (*parents, last)):
        return "+ must stand alone between slashes"
    if "\0" in topic:
        return "a filter must not contain NUL"
    return "a filter must not begin with $" if topic.startswith("$") else None


def is_time_zone(name: str) -> bool:
    """Return whether this system has a time zone with this name."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def is_broker_url(url: str) -> bool:
    """Return whether a URL is mqtt://HOST:PORT or mqtts://HOST:PORT, with a valid optional port and no other parts."""
    if re.fullmatch(BROKER, url) is None:
        return False
    try:
        return parse_broker_url(url)[1] > 0
    except ValueError:  # a port above 65535
        return False


def parse_broker_url(url: str) -> tuple[str, int, bool]:
    """Return the host and the port of a broker's URL, and whether the connection uses TLS."""
    split = urlsplit(url)
    uses_tls = split.scheme == "mqtts"
    port = split.port if split.port is not None else 8883 if uses_tls else 1883
    return split.hostname or "", port, uses_tls


@cache
def built_in_formats() -> dict[str, BuiltInFormat]:
    """Return the built-in formats, keyed by name."""
    tables = {path.stem: tomllib.loads(path.read_text(encoding="utf-8")) for path in _FORMATS.glob("*.toml")}
    return {name: msgspec.convert({"name": name, **tables[name]}, BuiltInFormat) for name in sorted(tables)}
