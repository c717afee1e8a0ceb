"""Configuration sections of the home: its broker, its meters, and its Home Assistant."""

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
from sottovoce.invalid_key import LARGEST, invalid_key

BROKER = r"^mqtts?://(\[[0-9a-fA-F:]+\]|[^:/@#\s]+)(:[0-9]{1,5})?/?$"
_DAY = 86_400
_GAP = 600.0
_FORMATS = Path(__file__).with_name("formats")
_PLACEHOLDER = re.compile(r"\{([a-z]+)\}")

Name = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")]
Topic = Annotated[str, Meta(min_length=1, max_length=256, pattern=r"^[^$\x00][^\x00]*$")]
Dotted = Annotated[str, Meta(min_length=1, max_length=256, pattern=r"^[^.\x00]+(\.[^.\x00]+)*$")]


class ValueSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[[feed.formats.values]]`: where one number is."""

    topic: Annotated[Topic, Meta(description="a topic filter; {word} is filled in from the meter's names")]
    path: Annotated[Dotted | None, Meta(description="json: keys and indices, with dots between, that lead to it")] = (
        None
    )


class FormatSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[[feed.formats]]`: how some tool publishes a meter's count."""

    name: Name
    kind: Annotated[Literal["counter", "gauge"], Meta(description="counter: an energy that only rises; gauge: a power")]
    payload: Annotated[Literal["plain", "json"], Meta(description="plain: the payload is one number")]
    unit: Annotated[Literal["Wh", "kWh", "W", "kW"], Meta(description="unit of a value, after `scale`")]
    scale: Annotated[float, Meta(gt=0, le=LARGEST, description="factor by which a value is multiplied")] = 1.0
    resolution: Annotated[
        float, Meta(ge=0, le=LARGEST, description="counter: its smallest step, in its unit, if that is large")
    ] = 0.0
    values: Annotated[
        tuple[ValueSection, ...], Meta(min_length=1, max_length=16, description="their sum is the meter's")
    ]
    id: Annotated[Dotted | None, Meta(description="json: path of the value that identifies the meter of a message")] = (
        None
    )
    time: Annotated[
        Dotted | None, Meta(description="json: path of the time of measurement; without it arrival counts")
    ] = None
    time_format: Literal["iso8601", "seconds", "milliseconds"] = "iso8601"

    def __post_init__(self) -> None:
        """Check that counters have units of energy and gauges units of power, and that only JSON formats have paths."""
        energy = self.unit.endswith("h")
        if energy != (self.kind == "counter"):
            raise invalid_key(
                "unit", f"a {self.kind} must be in {'Wh or kWh' if self.kind == 'counter' else 'W or kW'}"
            )
        for i, value in enumerate(self.values):
            if (value.path is None) == (self.payload == "json"):
                problem = "missing; say where in the JSON the value is" if value.path is None else "plain has no path"
                raise invalid_key(f"values[{i}].path", problem)
            if misplaced := _topic_defect(value.topic):
                raise invalid_key(f"values[{i}].topic", misplaced)
        for key in ("id", "time"):
            if self.payload == "plain" and getattr(self, key) is not None:
                raise invalid_key(key, "plain has no path")

    @property
    def placeholders(self) -> list[str]:
        """The placeholders that a meter's names must fill, in order."""
        texts = [text for value in self.values for text in (value.topic, value.path or "")]
        return list(dict.fromkeys(word for text in texts for word in _PLACEHOLDER.findall(text)))


class MeterSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[[feed.meters]]`: one meter of this home."""

    name: Annotated[Name, Meta(description="what it is called here; all of it that is stored")]
    format: Annotated[Name, Meta(description="a built-in one, or one of [[feed.formats]]")]
    names: Annotated[
        dict[Annotated[str, Meta(pattern=r"^[a-z]+$")], Annotated[str, Meta(min_length=1, max_length=128)]],
        Meta(description="what the format's {words} stand for"),
    ] = {}
    id: Annotated[
        Annotated[str, Meta(min_length=1, max_length=128)] | None,
        Meta(
            description="the value by which its messages identify it; needed if the format names the path of that value"
        ),
    ] = None
    scale: Annotated[float, Meta(gt=0, le=LARGEST, description="a further factor, such as a transformer's")] = 1.0
    max_power: Annotated[float, Meta(gt=0, le=10_000, description="the largest plausible power, kW")] = 100.0
    longest_gap: Annotated[
        Annotated[float, Meta(ge=1, le=_DAY)] | None,
        Meta(
            description="readings further apart, in seconds, leave a gap; at most a window; without it 600, or a window"
        ),
    ] = None
    net: Annotated[
        bool,
        Meta(
            description="energy that is fed in is counted against energy that is taken, so that values fall, or are "
            "below 0; where more is fed in, it is kept as NAME-export"
        ),
    ] = False
    time_zone: Annotated[
        Annotated[str, Meta(min_length=1, max_length=64)] | None,
        Meta(
            description="zone of measurement times that name none, such as Europe/Berlin; if unset, those are refused"
        ),
    ] = None
    replay: Annotated[bool, Meta(description="accept times in the past, because a recorded feed is replayed")] = False


class HomeAssistantSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[feed.home_assistant]`: this device as a device of Home Assistant."""

    enabled: bool = False
    discovery_prefix: Annotated[
        str, Meta(pattern=r"^[A-Za-z0-9_/-]+$", max_length=64, description="as in Home Assistant's MQTT options")
    ] = "homeassistant"
    name: Annotated[str, Meta(min_length=1, max_length=64, description="of the device")] = "Sottovoce"
    period: Annotated[float, Meta(ge=1, le=3600, description="seconds between two states")] = 60.0
    tasks: Annotated[
        bool, Meta(description="show the fleet's newest task, with a switch for anyone who may publish at this broker")
    ] = False


class FeedSection(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[feed]`: the sources of `sottovoce feed run`, and the windows it keeps."""

    broker: Annotated[
        Annotated[str, Meta(pattern=BROKER)] | None,
        Meta(description="mqtt://HOST:PORT of the home's broker; by default the one in data.source"),
    ] = None
    source: Annotated[
        Name | None, Meta(description="a meter source that another package brings, in place of the broker")
    ] = None
    settings: Annotated[dict[str, Any], Meta(description="settings of the meter source in `source`")] = {}
    version: Annotated[Literal["5", "3.1.1"], Meta(description="version of the protocol that the broker speaks")] = "5"
    ca: Annotated[Path | None, Meta(description="mqtts: certificates, PEM; without it those of the system")] = None
    username: Annotated[str | None, Meta(description="if the broker wants one")] = None
    password_file: Annotated[Path | None, Meta(description="file with the password, for its owner alone")] = None
    store: Annotated[
        Path | None, Meta(description="SQLite file with the windows; without it windows.db beside this file")
    ] = None
    window: Annotated[int, Meta(ge=60, le=_DAY, description="length of a window, seconds; days are whole windows")] = (
        1800
    )
    keep_days: Annotated[int, Meta(ge=1, le=36_500, description="older windows are deleted")] = 400
    meters: Annotated[tuple[MeterSection, ...], Meta(max_length=64)] = ()
    formats: Annotated[tuple[FormatSection, ...], Meta(max_length=64)] = ()
    home_assistant: HomeAssistantSection = HomeAssistantSection()

    def __post_init__(self) -> None:
        """Check that every meter has all keys that its format needs."""
        if _DAY % self.window:
            raise invalid_key("window", "a day must be a whole number of windows; write 1800 for half-hours")
        if self.settings and self.source is None:
            raise invalid_key("settings", "settings of feed.source, which is missing; leave them out")
        if self.broker is not None and not is_broker(self.broker):
            raise invalid_key("broker", "the port must lie between 1 and 65535")
        if self.password_file is not None and self.username is None:
            raise invalid_key("username", "needed with password_file")
        for i, declared in enumerate(self.formats):
            if declared.name in {one.name for one in self.formats[:i]} or (_FORMATS / f"{declared.name}.toml").exists():
                raise invalid_key(f"formats[{i}].name", "there is a format of this name; choose another")
        for i, meter in enumerate(self.meters):
            if meter.name in [one.name for one in self.meters[:i]]:
                raise invalid_key(f"meters[{i}].name", "there is a meter of this name; choose another")
            self._check(meter, f"meters[{i}]")

    def _check(self, meter: MeterSection, key: str) -> None:
        if meter.format not in (known := [*built_in_formats(), *(one.name for one in self.formats)]):
            raise invalid_key(f"{key}.format", f"unknown format; choose one of {', '.join(known)}")
        chosen = self.format_of(meter)
        if missing := [word for word in chosen.placeholders if word not in meter.names]:
            raise invalid_key(
                f"{key}.names", f"missing {missing[0]}: {meter.format} needs {', '.join(chosen.placeholders)}"
            )
        if unknown := [word for word in meter.names if word not in chosen.placeholders]:
            needed = ", ".join(chosen.placeholders) or "none"
            raise invalid_key(f"{key}.names", f"{unknown[0]} is not a placeholder; {meter.format} needs {needed}")
        for value in chosen.values:
            if misplaced := _topic_defect(topic := fill_placeholders(value.topic, meter.names)):
                raise invalid_key(f"{key}.names", f"{misplaced}, and {value.topic} becomes {topic!r}")
        if chosen.id is not None and meter.id is None:
            raise invalid_key(
                f"{key}.id", f"missing: {meter.format} also receives neighbours' meters; give the meter's own number"
            )
        if chosen.id is None and meter.id is not None:
            raise invalid_key(f"{key}.id", f"messages of {meter.format} do not identify their meter; leave it out")
        if self.gap_of(meter) > self.window:
            raise invalid_key(f"{key}.longest_gap", f"longer than a window of {self.window} s")
        if meter.time_zone is not None and (chosen.time is None or chosen.time_format != "iso8601"):
            raise invalid_key(
                f"{key}.time_zone", f"messages of {meter.format} have no times without a zone; leave it out"
            )
        if meter.time_zone is not None and not is_zone(meter.time_zone):
            raise invalid_key(
                f"{key}.time_zone", f"this system has no time zone {meter.time_zone}; for example, write Europe/Berlin"
            )
        if meter.name in [f"{one.name}{EXPORT}" for one in self.meters if one.net]:
            raise invalid_key(
                f"{key}.name", "this name is reserved for the energy that a net meter feeds in; choose another"
            )
        if meter.replay and chosen.time is None:
            raise invalid_key(f"{key}.replay", f"messages of {meter.format} do not say when they were measured")

    @property
    def file(self) -> Path:
        """Path of the file of windows."""
        return self.store or Path("windows.db")

    def gap_of(self, meter: MeterSection) -> float:
        """Return the longest gap between a meter's readings, in seconds."""
        return meter.longest_gap or min(_GAP, float(self.window))

    def format_of(self, meter: MeterSection) -> FormatSection:
        """Return a meter's format."""
        declared = {one.name: one for one in self.formats}
        return declared.get(meter.format) or built_in_formats()[meter.format]


def fill_placeholders(text: str, names: Mapping[str, str]) -> str:
    """Return a topic or a part of a path, with each {word} replaced by a meter's name for it."""
    return _PLACEHOLDER.sub(lambda word: names.get(word[1], word[0]), text)


def _topic_defect(topic: str) -> str | None:
    """Return the defect that makes a broker refuse a topic filter; None without a defect."""
    *before, last = topic.split("/")
    if "#" in "".join(before) or ("#" in last and last != "#"):
        return "# must stand alone at the end of a filter"
    if any("+" in level and level != "+" for level in (*before, last)):
        return "+ must stand alone between slashes"
    if "\0" in topic:
        return "a filter must not contain NUL"
    return "a filter does not begin with $" if topic.startswith("$") else None


def is_zone(name: str) -> bool:
    """Return whether this system knows a time zone of this name."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def is_broker(url: str) -> bool:
    """Return whether this is mqtt://HOST:PORT or mqtts://HOST:PORT, with a possible port and nothing else."""
    if re.fullmatch(BROKER, url) is None:
        return False
    try:
        return address_of(url)[1] > 0
    except ValueError:  # a port above 65535
        return False


def address_of(url: str) -> tuple[str, int, bool]:
    """Return host, port and whether TLS is used, from a broker's URL."""
    split = urlsplit(url)
    encrypted = split.scheme == "mqtts"
    port = split.port if split.port is not None else 8883 if encrypted else 1883
    return split.hostname or "", port, encrypted


@cache
def built_in_formats() -> dict[str, FormatSection]:
    """Return the built-in formats, by name."""
    tables = {path.stem: tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(_FORMATS.glob("*.toml"))}
    return {name: msgspec.convert({"name": name, **table}, FormatSection) for name, table in tables.items()}
