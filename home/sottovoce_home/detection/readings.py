"""The readings of one number of a broker, and the notes that other messages contain about it."""

import re
from dataclasses import dataclass, field
from typing import Any

from sottovoce_home.detection.words import Leaf, Unit, exact_unit

_ATTRIBUTES = frozenset(
    {"unit_of_measurement", "device_class", "state_class", "friendly_name", "id", "unit", "$unit", "$name"}
)
_MAX_NOTES = 2000
_MAX_NOTE = 64
_MAX_TEXT = 256  # of a topic or a template: the search in a template takes time that grows with its square
_TEMPLATE = re.compile(r"\{\{-?\s*value(?P<json>_json)?(?P<path>[\w.\[\]'\"$:/ -]*?)\s*(\|.*)?-?\}\}")
_KEY = re.compile(r"\.(\w+)|\[\s*'([^']+)'\s*\]|\[\s*\"([^\"]+)\"\s*\]|\[\s*(\d+)\s*\]")


@dataclass(slots=True)
class Readings:
    """The readings of one number.

    Attributes:
        count: number of readings.
        live: number of readings that the broker had not retained.
        first: first value; the first that was not retained, if there is one.
        last: newest value.
        first_at: time of the first value on the monotonic clock, in seconds.
        last_at: time of the newest value.
        fell: whether a value was smaller than the one before.
        decimals: greatest number of decimals.
    """

    count: int = 0
    live: int = 0
    first: float = 0.0
    last: float = 0.0
    first_at: float = 0.0
    last_at: float = 0.0
    fell: bool = False
    decimals: int = 0

    def add(self, value: float, at: float, *, retained: bool) -> None:
        """Add a reading; one that the broker had retained may be old, so it says nothing about changes."""
        if self.live == 0:
            self.first, self.first_at = value, at
        elif value < self.last:
            self.fell = True
        self.count += 1
        self.live += not retained
        self.last, self.last_at = value, at
        self.decimals = max(self.decimals, len(repr(value).partition(".")[2].rstrip("0")) if value < 1e15 else 0)

    def watts(self, wh: float) -> float | None:
        """Return the mean power, in W, if one unit is `wh` Wh; None if the number did not rise."""
        elapsed = self.last_at - self.first_at
        return (self.last - self.first) * wh * 3600 / elapsed if self.last > self.first and elapsed >= 1 else None


def likely_unit(readings: Readings) -> Unit:
    """Return the unit of a counter of a home or an appliance that its values suggest."""
    watts = readings.watts(1.0)
    if watts is not None:
        return "Wh" if watts >= 30 or readings.last > 1e6 else "kWh"  # as kWh, 30 W would be 30 kW
    return "kWh" if readings.last < 150_000 and (readings.decimals >= 1 or readings.last < 100_000) else "Wh"


@dataclass(slots=True)
class Notes:
    """Notes about numbers: attributes on neighbouring topics, and Home Assistant's discovery messages."""

    _topics: dict[str, dict[str, str]] = field(default_factory=dict)
    _leaves: dict[Leaf, tuple[str, str]] = field(default_factory=dict)

    def add_attribute(self, topic: str, payload: bytes) -> None:
        """Store an attribute that a tool publishes beside a number, such as `.../unit_of_measurement`."""
        parent, _, last = topic.rpartition("/")
        if last in _ATTRIBUTES and len(payload) <= _MAX_NOTE and (parent in self._topics or self._has_room):
            text = payload.decode("utf-8", "replace").strip().strip('"')
            self._topics.setdefault(parent, {})[last] = text

    def add_discovery(self, content: Any) -> None:
        """Store what a discovery message says about the number at its state topic and template."""
        if not isinstance(content, dict):
            return
        parts = content.get("components", content.get("cmps"))
        base = {key: value for key, value in content.items() if isinstance(value, str)}
        for part in parts.values() if isinstance(parts, dict) else [content]:
            if isinstance(part, dict) and self._has_room:
                self._add_entity({**base, **{key: value for key, value in part.items() if isinstance(value, str)}})

    def _add_entity(self, entity: dict[str, str]) -> None:
        stated, base = entity.get("state_topic") or entity.get("stat_t") or "", entity.get("~", "")
        template = entity.get("value_template") or entity.get("val_tpl") or "{{ value }}"
        if not stated or max(len(stated), len(base), len(template)) > _MAX_TEXT:
            return
        topic, path = stated.replace("~", base), _template_path(template)
        if path is None or len(topic) > _MAX_TEXT:
            return
        unit = entity.get("unit_of_measurement") or entity.get("unit_of_meas") or ""
        kind = entity.get("device_class") or entity.get("dev_cla") or ""
        self._leaves[topic, path] = unit[:_MAX_NOTE], f"{kind[:_MAX_NOTE]} {entity.get('name', '')[:_MAX_NOTE]}"

    @property
    def _has_room(self) -> bool:
        return len(self._topics) + len(self._leaves) < _MAX_NOTES

    def words(self, leaf: Leaf) -> str:
        """Return all words that other messages say about a number."""
        return " ".join((*self._attributes(leaf).values(), *self._leaves.get(leaf, ())))

    def _attributes(self, leaf: Leaf) -> dict[str, str]:
        """Return the attributes beside the topic of a number, and those below it."""
        return {**self._topics.get(leaf[0].rpartition("/")[0], {}), **self._topics.get(leaf[0], {})}

    def unit(self, leaf: Leaf) -> Unit | None:
        """Return the unit that other messages state for a number."""
        attributes = self._attributes(leaf)
        stated = (attributes.get(key, "") for key in ("unit_of_measurement", "unit", "$unit"))
        return next((unit for text in (*stated, self._leaves.get(leaf, ("",))[0]) if (unit := exact_unit(text))), None)


def _template_path(template: str) -> tuple[str, ...] | None:
    """Return the path that a simple template of Home Assistant takes from the JSON; None if it does more."""
    match = _TEMPLATE.fullmatch(template.strip())
    if match is None or (match["path"] and not match["json"]):
        return None
    if _KEY.sub("", match["path"]):
        return None
    return tuple(next(filter(None, found)) for found in _KEY.findall(match["path"]))


def wh_per_unit(unit: Unit) -> float:
    """Return how many Wh, or W, one unit is."""
    return 1000.0 if unit.startswith("k") else 1.0
