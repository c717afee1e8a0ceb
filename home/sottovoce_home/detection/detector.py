"""Detector of meters: gathers the messages of a broker, bounded in size, and proposes tables for them."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any

import msgspec
from sottovoce.config import FeedSection, FormatSection
from sottovoce.config.feed import built_in_formats
from sottovoce.errors import MessageRefused

from sottovoce_home.detection.readings import Notes, Readings
from sottovoce_home.detection.templates import Fit, FormatTemplate
from sottovoce_home.detection.words import Leaf, Meaning, Unit, exact_unit, leaf_meaning, named_unit
from sottovoce_home.meters import MAX_PAYLOAD_BYTES, Arrival
from sottovoce_home.meters.payload import parse_number, possible_times

_MAX_TOPIC = 256
_MAX_TOPICS = 4096
_MAX_SERIES = 1024
_MAX_IDENTITIES = 64
_MAX_FITS = 32  # of one message
_MAX_LEAVES = 256  # of one message
_MAX_DEPTH = 6
_MAX_KEY = 64  # a longer key names no number of a meter, and paths are stored
_OWN = ("sottovoce/", "$")
_OTHER_METERS = frozenset({"gas", "water"})  # as in rtl_433's MeterType
_DECIMAL_COMMA = re.compile(r"\s*\d{1,12},\d{1,6}\s*", re.ASCII)
_RAW = {b"1-0:1.8.": "a raw telegram of a P1 port", b"\x1b\x1b\x1b\x1b\x01\x01\x01\x01": "raw SML"}

Key = tuple[str, tuple[tuple[str, str], ...]]
"""Name of a format, and values for its placeholders."""


@dataclass(slots=True)
class Series:
    """Messages that fit one format with the same values for its placeholders.

    Attributes:
        template: the format.
        names: values for its placeholders.
        values: readings of each of the format's values that was heard, by meter number and index.
        leaves: where each value is.
        identities: number of messages by the meter's number; of one number, "", if messages have none.
        has_no_zone: whether the newest measurement time has no zone.
        local_times: newest measurement time without a zone, and the arrival time.
        age: greatest age of a measurement that the broker had not retained, in seconds.
    """

    template: FormatTemplate
    names: dict[str, str]
    values: dict[tuple[str, int], Readings] = field(default_factory=dict)
    leaves: dict[int, Leaf] = field(default_factory=dict)
    identities: Counter[str] = field(default_factory=Counter)
    local_times: tuple[str, float] | None = None
    age: float = 0.0

    def add(self, fit: Fit, arrival: Arrival) -> None:
        """Add a message that fits."""
        if fit.identity not in self.identities and len(self.identities) >= _MAX_IDENTITIES:
            return
        self.identities[fit.identity] += 1
        self.leaves[fit.index] = fit.leaf
        readings = self.values.setdefault((fit.identity, fit.index), Readings())
        readings.add(fit.number, arrival.monotonic, retained=arrival.retained)
        if fit.form.time is None:
            return
        try:
            measured = possible_times(fit.time, fit.form.time_format)
        except MessageRefused:
            if isinstance(fit.time, str) and len(fit.time) <= _MAX_TOPIC and _is_local_time(fit.time):
                self.local_times = fit.time, arrival.wall
            return
        if not arrival.retained:
            self.age = max(self.age, arrival.wall - measured[-1])


class Detector:
    """A detector of meters among the messages of a broker.

    Args:
        formats: formats that a meter can have.
        discovery_prefix: topic under which Home Assistant's discovery messages are.
    """

    def __init__(self, formats: Iterable[FormatSection], discovery_prefix: str = "homeassistant") -> None:
        self.templates = [FormatTemplate(form) for form in formats]
        self.messages = 0
        self.topics: set[str] = set()
        self.series: dict[Key, Series] = {}
        self.leaves: dict[Leaf, Readings] = {}
        self.units: dict[Leaf, Unit] = {}
        self.unreadable: dict[str, str] = {}
        self.notes = Notes()
        self.is_full = False
        self._discovery = f"{discovery_prefix}/"

    def add(self, arrival: Arrival) -> None:
        """Add a message of any topic and content; only what may belong to a meter is stored."""
        topic, payload = arrival.topic, arrival.payload
        self.messages += 1
        if len(self.topics) < _MAX_TOPICS:
            self.topics.add(topic[:_MAX_TOPIC])
        if len(topic) > _MAX_TOPIC or len(payload) > MAX_PAYLOAD_BYTES or topic.startswith(_OWN):
            return
        content, number = _content(payload)
        if topic.startswith(self._discovery) and topic.endswith("/config"):
            self.notes.add_discovery(content)
            return
        self.notes.add_attribute(topic, payload)
        self._match(arrival, content, number)
        for path, value in islice(_numbers(content if number is None else number), _MAX_LEAVES):
            self._add_leaf((topic, path), value, content, arrival)
        for mark, what in _RAW.items():
            if mark in payload:
                self._add_unreadable(topic, what)
        if number is None and content is None and len(payload) <= _MAX_TOPIC:
            self._check_text(topic, payload)

    def _match(self, arrival: Arrival, content: Any, number: float | None) -> None:
        if isinstance(content, dict) and any(
            isinstance(value, str) and value.lower() in _OTHER_METERS for value in content.values()
        ):
            return
        for template in self.templates:
            for fit in islice(template.fits(arrival.topic, content, number), _MAX_FITS):
                key = (fit.form.name, fit.names)
                if key not in self.series:
                    if len(self.series) >= _MAX_SERIES:
                        self.is_full = True
                        continue
                    self.series[key] = Series(template, dict(fit.names))
                self.series[key].add(fit, arrival)

    def _add_leaf(self, leaf: Leaf, value: float, content: Any, arrival: Arrival) -> None:
        """Add a number for which there may be no format."""
        if leaf not in self.leaves:
            if len(self.leaves) >= _MAX_SERIES:
                self.is_full = True
                return
            if leaf_meaning(leaf, "") is Meaning.OTHER:
                if named_unit(leaf[1][-1] if leaf[1] else leaf[0]) in ("W", "kW"):
                    self._add_unreadable(leaf[0], "only a power was heard")
                return
            self.leaves[leaf] = Readings()
        if (unit := _sibling_unit(content, leaf[1])) is not None:
            self.units[leaf] = unit
        self.leaves[leaf].add(value, arrival.monotonic, retained=arrival.retained)

    def _check_text(self, topic: str, payload: bytes) -> None:
        text = payload.decode("utf-8", "replace")
        if any(digit.isdecimal() for digit in text) and named_unit(text) in ("Wh", "kWh"):
            self._add_unreadable(topic, "the number is followed by a unit; have the tool publish only the number")
        elif _DECIMAL_COMMA.fullmatch(text) and leaf_meaning((topic, ()), "") in (Meaning.IMPORT, Meaning.ENERGY):
            self._add_unreadable(topic, "the number has a decimal comma; have the tool publish a point")

    def _add_unreadable(self, topic: str, reason: str) -> None:
        if topic in self.unreadable or len(self.unreadable) < _MAX_IDENTITIES:
            self.unreadable[topic] = reason


def known_formats(feed: FeedSection) -> list[FormatSection]:
    """Return the built-in formats, and those of a configuration."""
    return [*built_in_formats().values(), *feed.formats]


def _content(payload: bytes) -> tuple[Any, float | None]:
    """Return a payload as a JSON object or list, or as one number; two times None if it is neither."""
    try:
        return None, parse_number(payload.decode("ascii").strip())
    except (UnicodeDecodeError, MessageRefused):
        pass
    try:
        content = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None, None
    return (content, None) if isinstance(content, dict | list) else (None, None)


def _numbers(content: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], float]]:
    """Yield the paths and values of the numbers in a JSON document whose keys are not too long."""
    if isinstance(content, dict | list) and len(path) < _MAX_DEPTH:
        items = content.items() if isinstance(content, dict) else enumerate(content)
        for key, value in items:
            if len(str(key)) <= _MAX_KEY:
                yield from _numbers(value, (*path, str(key)))
    else:
        try:
            yield path, parse_number(content)
        except MessageRefused:
            return


def _sibling_unit(content: Any, path: tuple[str, ...]) -> Unit | None:
    """Return the unit that a JSON object states beside one of its numbers."""
    for key in path[:-1]:
        content = content[int(key)] if isinstance(content, list) else content[key]
    if not isinstance(content, dict):
        return None
    found = next((content[key] for key in ("unit", "units", "unit_of_measurement") if key in content), None)
    return exact_unit(found) if isinstance(found, str) else None


def _is_local_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is None
    except ValueError:
        return False
