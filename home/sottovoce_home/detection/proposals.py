"""Choice of the tables that fit the messages of a broker, with what is uncertain about each."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
from sottovoce.config import FeedSection, FormatSection
from sottovoce.config.feed import BuiltInFormat, is_time_zone

from sottovoce_home.detection.detector import Detector, Series
from sottovoce_home.detection.readings import Readings, likely_unit, wh_per_unit
from sottovoce_home.detection.words import (
    GENERIC,
    Leaf,
    Meaning,
    Unit,
    is_total,
    leaf_meaning,
    meaning,
    named_unit,
    names_export,
)

_LARGEST_WATTS = 100_000.0
_USUAL_AGE = 900.0
_DULL = GENERIC | {"sensor", "energy", "total", "main", "tele", "events", "rpc", "json"}
_KEYS = ("key", "keyb", "keyc", "keyd", "keye", "keyf")
_TARIFF = re.compile(r"(?<!\d)[0-4](?!\d)")
_MAX_LISTED = 8
_MAX_PROPOSALS = 64


@dataclass(slots=True)
class Proposal:
    """A meter that was found.

    Attributes:
        meter: its `[[feed.meters]]` table.
        form: its `[[feed.formats]]` table, if no format fits.
        leaves: the numbers that it reads.
        messages: how many messages were heard.
        doubts: what is uncertain.
        kwh: what its counter reads, in kWh; None for a power.
        tool: the tool whose format it is; empty for other formats.
    """

    meter: dict[str, Any]
    form: dict[str, Any] | None
    leaves: set[Leaf]
    messages: int
    doubts: list[str] = field(default_factory=list)
    kwh: float | None = None
    tool: str = ""


@dataclass(slots=True)
class Choice:
    """The meters that were found, and the topics that cannot be read.

    Attributes:
        proposals: meters, in the order in which they were first heard.
        unreadable: topics that look like those of meters, and why they cannot be read.
    """

    proposals: list[Proposal]
    unreadable: dict[str, str]


def choose(detector: Detector, declared: tuple[FormatSection, ...] = ()) -> Choice:
    """Return the meters that were found, at most one for each number, and at most one format for each topic.

    Args:
        detector: what was heard.
        declared: formats of the configuration, which a proposal may use.
    """
    counters = [one for one in detector.series.values() if one.template.form.kind == "counter"]
    gauges = [one for one in detector.series.values() if one.template.form.kind == "gauge"]
    chosen: list[tuple[Series, Proposal]] = []
    claimed: dict[str, str] = {}
    for series, doubts in sorted(_credible(detector, counters), key=lambda pair: _rank(pair[0])):
        topics = {leaf[0] for leaf in series.leaves.values()}
        if all(claimed.get(topic, series.template.form.name) == series.template.form.name for topic in topics):
            claimed.update(dict.fromkeys(topics, series.template.form.name))
            chosen.append((series, _propose(detector, series, doubts)))
    for series in gauges:
        topics = {leaf[0] for leaf in series.leaves.values()}
        if not claimed.keys() & topics and not any(series.names and series.names == one.names for one, _ in chosen):
            claimed.update(dict.fromkeys(topics, series.template.form.name))
            doubts = ["only a power was heard, which the feed integrates; some meters send their counter once an hour"]
            chosen.append((series, _propose(detector, series, doubts)))
    heard = {leaf: place for place, leaf in enumerate(dict.fromkeys(_all_leaves(detector)))}
    proposals = [proposal for _, proposal in chosen]
    proposals += _own(detector, [series for series, _ in chosen])
    proposals.sort(key=lambda proposal: min(heard[leaf] for leaf in proposal.leaves))
    valid = _valid(proposals[:_MAX_PROPOSALS], declared)
    read = {leaf[0] for proposal in valid for leaf in proposal.leaves}
    refused = {leaf[0]: "the topic or a name does not fit in a table" for one in proposals for leaf in one.leaves}
    unreadable = {topic: why for topic, why in {**detector.unreadable, **refused}.items() if topic not in read}
    related = {topic for topic in unreadable if topic not in refused and _is_related(topic, [one for one, _ in chosen])}
    return Choice(valid, {topic: why for topic, why in unreadable.items() if topic not in related})


def _all_leaves(detector: Detector) -> Iterator[Leaf]:
    for series in detector.series.values():
        yield from series.leaves.values()
    yield from detector.leaves


def _rank(series: Series) -> tuple[bool, int, int]:
    """Order: complete formats first, then those that add up more values, then those that leave less open."""
    form = series.template.form
    return len(series.leaves) < len(form.values), -len(form.values), len(form.placeholders)


def _credible(detector: Detector, counters: list[Series]) -> Iterator[tuple[Series, list[str]]]:
    """Yield the series that count imported energy, with what is uncertain."""
    vague: dict[str, list[Series]] = {}
    certain: set[str] = set()
    for series in counters:
        name, words = series.template.form.name, " ".join(series.names.values())
        readings = series.values.values()
        if any(one.last < 0 for one in readings):
            continue
        if series.template.says_what(series.names):
            doubts = ["the name suggests energy that is produced, not consumed"] if names_export(words) else []
            if any(one.fell for one in readings):
                doubts.append("the value fell; if the meter counts energy fed in backwards, set net = true")
            yield series, doubts
            continue
        leaf = series.leaves[min(series.leaves)]
        said = meaning(f"{words} {detector.notes.words(leaf)}")
        unit = detector.notes.unit(leaf)
        if said is Meaning.OTHER or unit in ("W", "kW") or any(one.fell for one in readings):
            continue
        if said is not Meaning.UNKNOWN or unit is not None:
            certain.add(name)
            yield series, []
        elif (
            series.template.names_tool
            and not series.template.usual
            and all((one.watts(1.0) or 0) < _LARGEST_WATTS for one in readings)
        ):
            vague.setdefault(name, []).append(series)
    for name, several in vague.items():
        if name not in certain:
            best = max(several, key=lambda one: max((r.watts(1.0) is not None, r.last) for r in one.values.values()))
            others = [", ".join(one.names.values()) for one in several if one is not best][:_MAX_LISTED]
            heard = f"; {', '.join(others)} may be it, too" if others else ""
            yield best, [f"nothing says that this is the counter of the energy consumed{heard}"]


def _propose(detector: Detector, series: Series, doubts: list[str]) -> Proposal:
    form = series.template.form
    identity = series.identities.most_common(1)[0][0]
    readings = {index: one for (number, index), one in series.values.items() if number == identity}
    meter: dict[str, Any] = {"name": _slug(list(series.names.values()), form.name), "format": form.name}
    if series.names:
        meter["names"] = series.names
    if form.id is not None:
        meter["id"] = identity
        others = [number for number, _ in series.identities.most_common(_MAX_LISTED + 1) if number != identity]
        heard = f"; {', '.join(others)} were heard, too, and may be neighbours'" if others else ""
        doubts.append(f"id must be the number on your own meter{heard}")
    factor = wh_per_unit(form.unit) * form.scale
    if form.kind == "counter" and not series.template.says_what(series.names):
        leaf = series.leaves[min(series.leaves)]
        unit = detector.notes.unit(leaf)
        if unit is None:
            unit = likely_unit(next(iter(readings.values())))
            doubts.append(f"the unit is taken as {unit}: compare with the meter's display")
        if wh_per_unit(unit) != factor:
            meter["scale"] = wh_per_unit(unit) / factor
            factor = wh_per_unit(unit)
    elif form.id is not None and form.scale != 1.0:
        doubts.append(f"one unit is taken as {form.scale:g} {form.unit}: compare with the meter's display")
    if form.kind == "counter" and any((one.watts(factor) or 0) > _LARGEST_WATTS for one in readings.values()):
        doubts.append(f"it rises by more than {_LARGEST_WATTS / 1000:g} kW: is the unit {form.unit}?")
    _add_times(meter, series, doubts)
    if missing := [value.topic for index, value in enumerate(form.values) if index not in series.leaves]:
        doubts.append(f"nothing was heard on {', '.join(missing)}, and without it no window is stored")
    proposal = Proposal(meter, None, set(series.leaves.values()), sum(one.count for one in readings.values()), doubts)
    proposal.tool = form.reads if isinstance(form, BuiltInFormat) else ""
    _finish(proposal, list(readings.values()), factor if form.kind == "counter" else None)
    return proposal


def _finish(proposal: Proposal, readings: list[Readings], wh: float | None) -> None:
    if not any(one.live for one in readings):
        proposal.doubts.append(
            "only messages that the broker had retained were heard, which may be old: check that the meter publishes"
        )
    if wh is not None:
        proposal.kwh = sum(one.last for one in readings) * wh / 1000


def _add_times(meter: dict[str, Any], series: Series, doubts: list[str]) -> None:
    """Add the time zone of times without one, and the lateness of late measurements."""
    if series.local_times is not None:
        text, arrived = series.local_times
        zone = system_time_zone()
        local = datetime.fromisoformat(text)
        if abs(local.replace(tzinfo=ZoneInfo("UTC")).timestamp() - arrived) <= _USUAL_AGE:
            zone = "UTC"
        meter["time_zone"] = zone
        doubts.append(f"the times have no zone and are taken as those of {zone}")
    if series.age > _USUAL_AGE and series.template.form.time is not None:
        hours = int(series.age // 3600) + 1
        meter["latest"] = f"{hours}h" if hours <= 48 else f"{hours // 24 + 1}d"
        doubts.append("the measurements arrive late, or the meter's clock is wrong; latest accepts them")


def system_time_zone() -> str:
    """Return the name of this system's time zone; UTC if it has none."""
    name = os.environ.get("TZ") or str(Path("/etc/localtime").resolve()).partition("zoneinfo/")[2]
    return name if name and is_time_zone(name) else "UTC"


def _own(detector: Detector, chosen: list[Series]) -> Iterator[Proposal]:
    """Yield proposals with a format of their own for energy counters that no format describes."""
    devices: dict[str, list[Leaf]] = {}
    for leaf, readings in detector.leaves.items():
        topic, path = leaf
        unit = _own_unit(detector, leaf)
        is_energy = unit in ("Wh", "kWh")
        said = leaf_meaning(leaf, detector.notes.words(leaf))
        if readings.fell or readings.last < 0 or said is Meaning.OTHER or unit in ("W", "kW"):
            continue
        if (said is Meaning.UNKNOWN and not is_energy) or _is_related(topic, chosen):
            continue
        devices.setdefault(topic if path else topic.rpartition("/")[0] or topic, []).append(leaf)
    for leaves in devices.values():
        yield _propose_own(detector, _best_leaves(detector, leaves))


def _best_leaves(detector: Detector, leaves: list[Leaf]) -> list[Leaf]:
    """Return the total of a device, or else its tariffs or phases, whose sum is the total."""

    def rank(leaf: Leaf) -> tuple[bool, bool, bool]:
        text = " ".join((*leaf[0].split("/")[-1:], *leaf[1]))
        said = meaning(f"{text} {detector.notes.words(leaf)}")
        return said is Meaning.IMPORT, is_total(text), _own_unit(detector, leaf) is not None

    best = max(leaves, key=rank)
    name = best[1][-1] if best[1] else best[0]
    family = [
        leaf
        for leaf in leaves
        if _TARIFF.search(name) and _TARIFF.sub("", leaf[1][-1] if leaf[1] else leaf[0]) == _TARIFF.sub("", name)
    ]
    return family if len(family) > 1 and rank(best) == rank(family[0]) else [best]


def _propose_own(detector: Detector, leaves: list[Leaf]) -> Proposal:
    readings = [detector.leaves[leaf] for leaf in leaves]
    doubts = ["no built-in format fits, so this one is made from the message"]
    unit = _own_unit(detector, leaves[0])
    if unit not in ("Wh", "kWh"):
        unit = likely_unit(readings[0])
        doubts.append(f"the unit is taken as {unit}: compare with the meter's display")
    if leaf_meaning(leaves[0], detector.notes.words(leaves[0])) is not Meaning.IMPORT:
        doubts.append("nothing says that this is the energy consumed, since the meter was installed")
    topic, path = leaves[0]
    name = _slug([part for part in re.split(r"[/.]", topic) if len(part) > 1], "own")
    names: dict[str, str] = {}
    values = []
    for where, keys in leaves:
        value = {"topic": where}
        if keys:
            value["path"] = ".".join(_dotted(key, names) for key in keys)
        values.append(value)
    form = {"name": f"own-{name}"[:32], "kind": "counter", "payload": "json" if path else "plain", "unit": unit}
    meter: dict[str, Any] = {"name": name, "format": form["name"]}
    if names:
        meter["names"] = names
    proposal = Proposal(meter, {**form, "values": values}, set(leaves), sum(one.count for one in readings), doubts)
    _finish(proposal, readings, wh_per_unit(unit))
    return proposal


def _dotted(key: str, names: dict[str, str]) -> str:
    """Return a key of a path; one that contains dots becomes a placeholder, because names may contain dots."""
    if "." not in key:
        return key
    word = _KEYS[len(names) % len(_KEYS)]
    names[word] = key
    return f"{{{word}}}"


def _own_unit(detector: Detector, leaf: Leaf) -> Unit | None:
    """Return the unit of a number: as stated beside it, in its name, or by a format with the same path."""
    stated = detector.units.get(leaf) or detector.notes.unit(leaf)
    if stated is not None:
        return stated
    if (named := named_unit(leaf[1][-1] if leaf[1] else leaf[0])) is not None:
        return named
    paths = (
        (template.form.unit, value.path)
        for template in detector.templates
        if template.form.kind == "counter" and template.form.scale == 1.0
        for value in template.form.values
    )
    place = f".{'.'.join(leaf[1])}"
    same = (unit for unit, path in paths if path is not None and place.endswith(f".{path}"))
    return None if leaf[1][-1:] in (("value",), ()) else next(same, None)


def _is_related(topic: str, chosen: list[Series]) -> bool:
    """Return whether a topic belongs to a device whose meter was already found."""
    levels = set(topic.split("/"))
    for series in chosen:
        if levels & {name for name in series.names.values() if len(name) > 2}:
            return True
        for claimed, _ in series.leaves.values():
            if not series.names and claimed.partition("/")[0] == topic.partition("/")[0]:
                return True
            if topic == claimed or topic.startswith(f"{claimed}/") or claimed.startswith(f"{topic}/"):
                return True
    return False


def _slug(names: list[str], otherwise: str) -> str:
    """Return a name for a meter on this device, made of the last part of its topic that says something."""
    for name in reversed([name for name in names if name.lower() not in _DULL] or names):
        slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:24].strip("-")
        if re.search(r"[a-z]", slug) and not slug.endswith("-export"):
            return slug
    return re.sub(r"[^a-z0-9]+", "-", otherwise.lower()).strip("-") or "house"


def _valid(proposals: list[Proposal], declared: tuple[FormatSection, ...]) -> list[Proposal]:
    """Return the proposals that a configuration accepts, with distinct names."""
    valid: list[Proposal] = []
    taken = {form.name for form in declared}
    known = [msgspec.to_builtins(form) for form in declared]
    meters: set[str] = set()
    for proposal in proposals:
        proposal.meter["name"] = _distinct(proposal.meter["name"], meters)
        if proposal.form is not None:
            proposal.form["name"] = proposal.meter["format"] = _distinct(proposal.form["name"], taken)
        forms = known if proposal.form is None else [*known, proposal.form]
        try:
            msgspec.convert({"meters": [proposal.meter], "formats": forms}, FeedSection)
        except msgspec.ValidationError:
            continue
        meters.add(proposal.meter["name"])
        if proposal.form is not None:
            taken.add(proposal.form["name"])
        valid.append(proposal)
    return valid


def _distinct(name: str, taken: set[str]) -> str:
    number = 2
    distinct = name
    while distinct in taken:
        distinct, number = f"{name[:28]}-{number}", number + 1
    return distinct
