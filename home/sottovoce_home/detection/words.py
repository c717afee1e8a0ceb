"""The meaning of a number, energy consumed or something else, by the words of its topic, key and attributes."""

import re
import tomllib
from enum import Enum
from pathlib import Path
from typing import Literal

Unit = Literal["Wh", "kWh", "W", "kW"]
Leaf = tuple[str, tuple[str, ...]]
"""Topic, and path in its JSON; the path is empty if the payload is one number."""

GENERIC = frozenset({"raw", "value", "state", "status", "reading"})
"""Names that do not say what a number is."""

_UNITS: dict[str, Unit] = {"wh": "Wh", "kwh": "kWh", "w": "W", "kw": "kW"}
_KWH = re.compile(r"k_?wh", re.IGNORECASE)
_POWER_METER = re.compile(r"power[ _-]?meter", re.IGNORECASE)
_WORD = re.compile(r"[A-Z]+(?![^\W\d_A-Z])|[A-Z]?[^\W\d_A-Z]+|\d+")
_OBIS = re.compile(r"(?<![\d.])0*(?P<quantity>\d{1,2})[._](?P<kind>[78])[._](?P<tariff>\d)(?!\d)")
_SETS = {
    name: frozenset(words)
    for name, words in tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8")).items()
}
_NOT_CONSUMED = _SETS["export"] | _SETS["medium"]
_OTHER = _NOT_CONSUMED | _SETS["other"]
_IMPORT, _ENERGY = _SETS["import"], _SETS["energy"]
_REGISTER = _ENERGY | _SETS["register"]
_ENERGY_UNITS = frozenset({"wh", "kwh"})


class Meaning(Enum):
    """The meaning of a number."""

    IMPORT = "energy taken from the grid"
    ENERGY = "energy"
    OTHER = "something else"
    UNKNOWN = "unknown"


def meaning(text: str) -> Meaning:
    """Return what the words, or the OBIS code, in a text say about a number."""
    if (obis := _OBIS.search(text)) is not None:
        imported = obis["quantity"] == "1" and obis["kind"] == "8"
        return Meaning.IMPORT if imported else Meaning.OTHER
    words = _words(text)
    if words & _ENERGY_UNITS:
        words -= {"power"}  # as in total_power_import_kwh
    imports = bool(words & _IMPORT)
    if words & (_OTHER - _SETS["other_unless_import"] if imports else _OTHER):
        return Meaning.OTHER
    if imports and words & _REGISTER:
        return Meaning.IMPORT
    return Meaning.ENERGY if words & _ENERGY else Meaning.UNKNOWN


def leaf_meaning(leaf: Leaf, notes: str) -> Meaning:
    """Return what a number is, by its last name and by notes, or else by the whole topic.

    Args:
        leaf: place of the number.
        notes: what other messages say about it.
    """
    names = [*leaf[0].split("/"), *leaf[1]]
    own = next((i for i in range(len(names) - 1, -1, -1) if names[i].lower() not in GENERIC), 0)
    said = meaning(" ".join((*names[own:], notes)))
    if said is Meaning.OTHER or _words(" ".join(names)) & _NOT_CONSUMED:
        return Meaning.OTHER
    whole = meaning(" ".join((*names, notes)))
    return whole if whole is not Meaning.OTHER and said is not Meaning.IMPORT else said


def is_total(text: str) -> bool:
    """Return whether a text names the sum of all tariffs or phases."""
    obis = _OBIS.search(text)
    return obis["tariff"] == "0" if obis is not None else bool(_words(text) & {"total", "sum"})


def names_export(text: str) -> bool:
    """Return whether a text contains a word for energy that is produced, or fed into the grid."""
    return bool(_words(text) & _SETS["export"])


def exact_unit(text: str) -> Unit | None:
    """Return the unit that a text is; None for others, such as EUR/kWh."""
    return _UNITS.get(text.strip().lower())


def named_unit(text: str) -> Unit | None:
    """Return the unit that a name contains, as in `total_kwh`."""
    words = set() if "/kwh" in text.lower() else _words(text)
    return next((unit for name, unit in _UNITS.items() if name in words), None)


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(_POWER_METER.sub(" meter ", _KWH.sub(" kwh ", text)))}
