"""Intervals from Green Button XML (ESPI), and the choice of the reader for a file."""

import re
from itertools import pairwise
from pathlib import Path
from xml.parsers import expat

from sottovoce.errors import DataError

from sottovoce_home.history import History, Interval
from sottovoce_home.home_assistant_files import CSV_READERS, read_states, read_statistics
from sottovoce_home.supplier_files import CsvForm, read_csv, read_export

_SQLITE = b"SQLite format 3\0"
_WATT, _WATT_HOUR = "38", "72"
"""ESPI's codes of units of measure (`uom`)."""
_FORWARD, _DELTA = "1", "4"
"""ESPI's codes of the flow to the customer, and of readings that are differences."""
_TYPE_FIELDS = ("uom", "powerOfTenMultiplier", "flowDirection", "accumulationBehaviour")


def read_history(path: Path, form: CsvForm) -> History:
    """Return the intervals in a file of any supported kind, which its first bytes tell.

    Args:
        path: path of a SQLite, XML or CSV file.
        form: form of a CSV file; in a file of Home Assistant, `energy_column` names the sensor.

    Raises:
        DataError: if the file cannot be read, or what it contains is not certain.
    """
    try:
        with path.open("rb") as file:
            head = file.read(64).removeprefix(b"\xef\xbb\xbf").lstrip()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}; check the path") from error
    if head.startswith(_SQLITE):
        _refuse_options(path, form, {"energy_column"})
        return read_statistics(path, form.energy_column)
    if head.startswith(b"<"):
        _refuse_options(path, form, set())
        return read_green_button(path)
    columns = [column.strip(b'" ') for column in re.split(rb"[;,\t\r\n]", head)]
    reader = next((read for first, read in CSV_READERS.items() if tuple(columns[: len(first)]) == first), read_csv)
    if reader is read_states:
        _refuse_options(path, form, {"energy_column", "time_format", "unit"})
    elif reader is not read_csv:
        _refuse_options(path, form, {"energy_column", "time_format"})
    return reader(path, form)


def _refuse_options(path: Path, form: CsvForm, used: set[str]) -> None:
    """Refuse options that this kind of file does not use; a time zone is welcome, since it changes nothing.

    Raises:
        DataError: if one of them is set.
    """
    for key in sorted(CsvForm.__dataclass_fields__.keys() - used - {"time_zone"}):
        if getattr(form, key):
            option = key.replace("_columns", "-column").replace("_", "-")
            raise DataError(f"{path}: --{option} has no effect on this kind of file; leave it out")


def read_green_button(path: Path) -> History:
    """Return the intervals in a Green Button file with one usage point.

    Raises:
        DataError: if the file declares a document type or entities, is not well-formed, or its usage points, reading
            types or intervals are not all of one kind.
    """
    reader = _EspiReader(path)
    reader.parse(read_export(path))
    return reader.history()


class _EspiReader:
    """Reader of ESPI elements: reading types, and the readings of intervals."""

    def __init__(self, path: Path) -> None:
        self._path, self._points = path, 0
        self._types: set[tuple[str, ...]] = set()
        self._readings: list[tuple[int, int, int, int]] = []
        self._elements: list[str] = []
        self._fields: dict[str, str] = {}
        self._text: list[str] = []
        self._parser = expat.ParserCreate(namespace_separator=" ")
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text.append
        self._parser.StartDoctypeDeclHandler = self._refuse
        self._parser.EntityDeclHandler = self._refuse

    def parse(self, content: bytes) -> None:
        try:
            self._parser.Parse(content, True)
        except (expat.ExpatError, LookupError, ValueError) as error:
            raise DataError(
                f"{self._path}, line {self._parser.CurrentLineNumber}: not well-formed ({error}); download the "
                "file again"
            ) from error

    def history(self) -> History:
        path = self._path
        if self._points > 1 or len(self._types) != 1:
            raise DataError(
                f"{path}: {self._points} usage points with {len(self._types)} kinds of readings, but one of each is "
                "needed; download the electricity that one meter delivers, alone"
            )
        unit, multiplier, flow, behaviour = next(iter(self._types))
        if unit not in (_WATT, _WATT_HOUR) or flow not in ("", _FORWARD) or behaviour not in ("", _DELTA):
            raise DataError(
                f"{path}: the readings (uom {unit or 'missing'}, flowDirection {flow}, accumulationBehaviour "
                f"{behaviour}) are not energy or power of intervals, delivered to the home; download interval data"
            )
        if (multiplier or "0") not in ("-3", "0", "3", "6"):
            raise DataError(f"{path}: powerOfTenMultiplier {multiplier} is not -3, 0, 3 or 6; download the file again")
        readings = sorted(self._readings, key=lambda one: one[1])
        if not readings:
            raise DataError(f"{path}: there are no interval readings; download interval data")
        step = readings[0][2]
        for (_, before, _, _), (line, start, _, _) in pairwise(readings):
            if start - before < step:
                raise DataError(f"{path}, line {line}: the interval overlaps another; download the file again")
        for line, start, duration, _ in readings:
            if duration != step or start % step:
                raise DataError(
                    f"{path}, line {line}: the interval lasts {duration} s or does not begin at a multiple of {step} "
                    "s; download intervals of one length"
                )
        factor = 10.0 ** int(multiplier or "0") * (1.0 if unit == _WATT_HOUR else step / 3600)
        return History(step, tuple(Interval(line, start, value * factor) for line, start, _, value in readings))

    def _refuse(self, *_arguments: object) -> None:
        raise DataError(
            f"{self._path}, line {self._parser.CurrentLineNumber}: declares a document type or entities, which Green "
            "Button files never do; download the file again"
        )

    def _start(self, name: str, _attributes: dict[str, str]) -> None:
        element = name.rpartition(" ")[2]
        self._elements.append(element)
        self._text.clear()
        if element == "UsagePoint":
            self._points += 1
        if element in ("ReadingType", "IntervalReading"):
            self._fields = {}

    def _end(self, _name: str) -> None:
        element = self._elements.pop()
        parent = self._elements[-1] if self._elements else ""
        if element == "ReadingType":
            self._types.add(tuple(self._fields.get(field, "") for field in _TYPE_FIELDS))
        elif element == "IntervalReading":
            line = self._parser.CurrentLineNumber
            numbers = [self._fields.get(field, "") for field in ("start", "duration", "value")]
            if not all(text.isascii() and text.isdigit() and len(text) <= 12 for text in numbers) or numbers[1] == "0":
                raise DataError(
                    f"{self._path}, line {line}: start, duration and value must be whole numbers of at least 0; "
                    "download the file again"
                )
            start, duration, value = map(int, numbers)
            self._readings.append((line, start, duration, value))
        elif parent in ("ReadingType", "IntervalReading") or (
            parent == "timePeriod" and "IntervalReading" in self._elements
        ):
            self._fields[element] = "".join(self._text).strip()
        self._text.clear()
