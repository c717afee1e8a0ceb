"""Intervals from the CSV files that suppliers export, whose columns and times are declared or detected."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Literal
from zoneinfo import ZoneInfo

from sottovoce.config.feed import is_time_zone
from sottovoce.days import DAY
from sottovoce.errors import DataError

from sottovoce_home.history import History, Interval

_MAX_BYTES = 64 * 1024 * 1024
_WH = {"wh": 1.0, "kwh": 1000.0, "w": 1.0, "kw": 1000.0}
_UNIT = re.compile(r"(?<![a-z])(k?wh?)(?![a-z])", re.IGNORECASE)
_TIME = re.compile(r"time|zeit|date|datum|start|end|\b(?:von|bis|from|to|ab)\b", re.IGNORECASE)
_START = re.compile(r"start|begin|\b(?:von|from|ab)\b", re.IGNORECASE)
_END = re.compile(r"\bend|\b(?:bis|to)\b", re.IGNORECASE)
_MAX_LISTED = 8
_MIDNIGHT = re.compile(r"(.*\D)24(:00(?::00)?)")
_FORMATS = ("%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S", "%Y/%m/%d %H:%M", "%Y/%m/%d %H:%M:%S")


@dataclass(frozen=True, slots=True)
class CsvForm:
    """Form of a supplier's CSV file, as its owner declares it; what is None is detected.

    Attributes:
        time_zone: time zone of times that do not specify an offset.
        time_columns: names of the columns with the time, joined by a space, such as a date and a time.
        energy_column: name of the column with the energy or the mean power.
        unit: Wh, kWh, W or kW.
        step: length of an interval, in seconds.
        stamps: whether a time is the start or the end of its interval.
        time_format: format of the times, as in `strptime`.
        only: column and beginning of its text in the rows to take, such as those of one register; None for all rows.
    """

    time_zone: str | None = None
    time_columns: tuple[str, ...] = ()
    energy_column: str | None = None
    unit: Literal["Wh", "kWh", "W", "kW"] | None = None
    step: int | None = None
    stamps: Literal["start", "end"] | None = None
    time_format: str | None = None
    only: tuple[str, str] | None = None


def read_csv(path: Path, form: CsvForm) -> History:
    """Return the intervals in a supplier's CSV file.

    Raises:
        DataError: if the file cannot be read, or its columns, times, values or step are not certain.
    """
    if form.time_zone is not None and not is_time_zone(form.time_zone):
        raise DataError(
            f"this system has no time zone {form.time_zone}; set --time-zone, for example, to Europe/Berlin"
        )
    header, rows = _chosen_rows(path, form)
    time_columns = _time_columns(path, header, form)
    energy_column = _energy_column(path, header, form)
    unit = form.unit or _unit_of(path, header[energy_column])
    texts = [(line, " ".join(row[c].strip() for c in time_columns), row[energy_column].strip()) for line, row in rows]
    is_comma = any("," in value for _, _, value in texts)
    stamps = [(line, parse_time(path, line, text, form), value) for line, text, value in texts]
    if stamps and _sort_key(stamps[0][1]) > _sort_key(stamps[-1][1]):
        stamps.reverse()  # some suppliers list the newest interval first
    instants = list(place_times(path, [(line, time) for line, time, _ in stamps], form))
    step = _step(path, [(stamp[0], at) for stamp, at in zip(stamps, instants, strict=True)], form)
    names = " ".join(header[c] for c in time_columns)
    is_end = (form.stamps or _stamps(path, names, stamps[0][1], stamps[-1][1], step)) == "end"
    factor = _WH[unit.lower()] * (1.0 if unit.lower().endswith("h") else step / 3600)
    intervals = []
    unclear = _single_hours(stamps, instants, form, step)
    for (line, _, text), at in zip(stamps, instants, strict=True):
        if at % step:
            raise DataError(
                f"{path}, line {line}: the interval does not begin at a multiple of {step} s, UTC, as windows do; "
                "export shorter intervals"
            )
        if text and at not in unclear:
            intervals.append(Interval(line, at - step * is_end, parse_value(path, line, text, is_comma) * factor))
    if not intervals:
        raise DataError(f"{path}: no interval has a value; check --energy-column")
    return History(step, tuple(intervals))


def read_export(path: Path) -> bytes:
    """Return the content of a file with at most 64 MiB.

    Raises:
        DataError: if the file cannot be read, or is larger.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}; check the path") from error
    if len(content) > _MAX_BYTES:
        raise DataError(f"{path}: larger than {_MAX_BYTES >> 20} MiB; export fewer days")
    return content


def read_rows(path: Path, least: int = 3) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Return the column names of a CSV file, and its rows with their line numbers.

    Args:
        path: path of the file.
        least: smallest number of lines.

    Raises:
        DataError: if the file cannot be read, has fewer lines, or its lines do not have the same columns.
    """
    content = read_export(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("cp1252", errors="replace")
    top = text.split("\n", 1)[0]
    delimiter = max(";\t,", key=top.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        rows = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: {error}; export the file again as CSV") from error
    if len(rows) < least:
        raise DataError(f"{path}: needs a line of column names and at least {least - 1} more")
    header = [cell.strip() for cell in rows[0][1]]
    for line, row in rows[1:]:
        if len(row) != len(header):
            raise DataError(
                f"{path}, line {line}: {len(row)} columns, not {len(header)} as in the first line; remove lines above "
                "the column names and below the intervals"
            )
    return header, rows[1:]


def _chosen_rows(path: Path, form: CsvForm) -> tuple[list[str], list[tuple[int, list[str]]]]:
    header, rows = read_rows(path)
    if form.only is None:
        return header, rows
    column = _column(path, header, form.only[0], "--only")
    chosen = [(line, row) for line, row in rows if row[column].strip().startswith(form.only[1])]
    if len(chosen) < 2:
        found = ", ".join(list(dict.fromkeys(row[column].strip() for _, row in rows))[:_MAX_LISTED])
        raise DataError(f"{path}: --only {'='.join(form.only)}: chooses {len(chosen)} lines; the column has {found}")
    return header, chosen


def _column(path: Path, header: list[str], name: str, option: str) -> int:
    if header.count(name) != 1:
        raise DataError(f"{path}: {option} {name}: the file has the columns {', '.join(header)}; choose one of these")
    return header.index(name)


def _time_columns(path: Path, header: list[str], form: CsvForm) -> list[int]:
    if form.time_columns:
        return [_column(path, header, name, "--time-column") for name in form.time_columns]
    found = [n for n, name in enumerate(header) if _TIME.search(name) and not _UNIT.search(name)]
    starts = [n for n in found if _START.search(header[n])]
    chosen = starts if len(found) > 1 else found
    if len(chosen) != 1:
        raise DataError(
            f"{path}: which column is the time of an interval is not certain; set --time-column to one of "
            f"{', '.join(header)}, or twice for a date and a time"
        )
    return chosen


def _energy_column(path: Path, header: list[str], form: CsvForm) -> int:
    if form.energy_column is not None:
        return _column(path, header, form.energy_column, "--energy-column")
    found = [n for n, name in enumerate(header) if _UNIT.search(name)]
    if len(found) != 1:
        raise DataError(
            f"{path}: which column is the energy is not certain; set --energy-column to one of {', '.join(header)}"
        )
    return found[0]


def _unit_of(path: Path, name: str) -> str:
    found: set[str] = {unit.lower() for unit in _UNIT.findall(name)}
    if len(found) != 1:
        raise DataError(f"{path}: the unit of the column {name} is not certain; set --unit to Wh, kWh, W or kW")
    return found.pop()


def parse_time(path: Path, line: int, text: str, form: CsvForm) -> datetime:
    """Return a time of a file, without a zone if it has none.

    Raises:
        DataError: if its form is unknown, or neither the time nor `form` has a time zone.
    """
    time_format, days = form.time_format, 0
    if (match := _MIDNIGHT.fullmatch(text)) is not None:  # some suppliers end the last interval of a day at 24:00
        text, days = f"{match[1]}00{match[2]}", 1
    try:
        found = _parse_usual_time(text) if time_format is None else datetime.strptime(text, time_format)  # noqa: DTZ007
        found += timedelta(days=days)
    except ValueError as error:
        raise DataError(
            f"{path}, line {line}: {text!r} is no time of a known form; set --time-format, for example '%d/%m/%Y %H:%M'"
        ) from error
    if not 1971 <= found.year <= 9000:
        raise DataError(f"{path}, line {line}: the year {found.year} is out of range; set --time-format")
    if found.tzinfo is None and form.time_zone is None:
        raise DataError(f"{path}, line {line}: the time has no offset from UTC; set --time-zone, such as Europe/Berlin")
    return found


def _parse_usual_time(text: str) -> datetime:
    for usual in _FORMATS:
        try:
            return datetime.strptime(text, usual)  # noqa: DTZ007 `place_times` adds the zone
        except ValueError:
            continue
    if len(text) < len("2026-01-01T00"):
        raise ValueError("a date without a time")
    return datetime.fromisoformat(text)


def _sort_key(time: datetime) -> datetime:
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time


def place_times(path: Path, times: list[tuple[int, datetime]], form: CsvForm) -> Iterator[int]:
    """Yield the Unix times of times in order; their order separates the two passes of a repeated hour.

    Raises:
        DataError: if a time does not exist in the zone, or is not later than the one before.
    """
    previous = -1
    for line, time in times:
        if time.tzinfo is None:
            early, late = (_unix(time.replace(tzinfo=ZoneInfo(form.time_zone or ""), fold=fold)) for fold in (0, 1))
            if early > late:
                raise DataError(
                    f"{path}, line {line}: {time} does not exist in {form.time_zone}, where summer time begins; check "
                    "--time-zone"
                )
            at = early if early > previous else late
        else:
            at = _unix(time)
        if at <= previous:
            raise DataError(
                f"{path}, line {line}: {time} is not later than in the line before; remove duplicates, and sort the "
                "lines by time"
            )
        yield at
        previous = at


def _unix(time: datetime) -> int:
    return int(time.timestamp())


def _single_hours(stamps: list[tuple[int, datetime, str]], instants: list[int], form: CsvForm, step: int) -> set[int]:
    """Return the times that occur twice where summer time ends, but once in the file: which one is meant is unknown."""
    present = set(instants)
    unclear = set()
    for (_, time, _), at in zip(stamps, instants, strict=True):
        if time.tzinfo is None:
            early, late = (_unix(time.replace(tzinfo=ZoneInfo(form.time_zone or ""), fold=fold)) for fold in (0, 1))
            if early < late and not {early, late} <= present:
                unclear.add(at)
    return unclear


def _step(path: Path, times: list[tuple[int, int]], form: CsvForm) -> int:
    gaps = Counter(after[1] - before[1] for before, after in pairwise(times))
    step = form.step or gaps.most_common(1)[0][0]
    for before, after in pairwise(times):
        if (after[1] - before[1]) % step:
            raise DataError(
                f"{path}, line {after[0]}: the time is {after[1] - before[1]} s after the line before, which is no "
                f"multiple of {step} s; set --step, or export intervals of one length"
            )
    if form.step is not None and form.step not in gaps:
        raise DataError(f"{path}: no two lines are {form.step} s apart; correct --step")
    return step


def _seconds_since_midnight(time: datetime) -> int:
    return time.hour * 3600 + time.minute * 60 + time.second


def _stamps(path: Path, names: str, first: datetime, last: datetime, step: int) -> Literal["start", "end"]:
    """Return what a time means, by the names of its columns, or by a file of whole local days."""
    is_start, is_end = bool(_START.search(names)), bool(_END.search(names))
    if is_start != is_end:
        return "start" if is_start else "end"
    edges = _seconds_since_midnight(first), _seconds_since_midnight(last)
    if edges == (0, DAY - step):
        return "start"
    if edges == (step, 0):
        return "end"
    raise DataError(
        f"{path}: whether a time is the start or the end of its interval is not certain; set --stamps to start or end"
    )


def parse_value(path: Path, line: int, text: str, is_comma: bool) -> float:
    """Return a number of at least 0 with the decimal sign of its file.

    Raises:
        DataError: if the text is no such number.
    """
    plain = text.replace(",", ".") if is_comma and "." not in text else text
    if re.fullmatch(r"\d{1,12}(\.\d{0,12})?", plain) is None or (is_comma and "." in text):
        raise DataError(
            f"{path}, line {line}: {text!r} is no energy: it must be a number of at least 0 with one decimal sign, the "
            "same in all lines, and no separator of thousands"
        )
    return float(plain)
