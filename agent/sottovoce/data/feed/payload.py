"""Extraction of the few declared values from a payload; everything else in it is discarded here."""

import re
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from sottovoce.data.feed.source import TimeFormat
from sottovoce.errors import MessageRefused

LARGEST = 65_536
"""Largest size of a payload, in bytes."""

_DECIMAL = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d{1,3})?", re.ASCII)
_LONGEST = 40
_LARGEST_VALUE = 1e13  # a counter in Wh, or a time in milliseconds
_IN_A_SECOND = {"seconds": 1.0, "milliseconds": 1000.0}


def parse_payload(payload: bytes, json: bool) -> Any:
    """Return the content of a payload: parsed JSON, or its text.

    Raises:
        MessageRefused: if it is too large, or malformed.
    """
    if len(payload) > LARGEST:
        raise MessageRefused("too-large", f"longer than {LARGEST} bytes")
    try:
        return msgspec.json.decode(payload) if json else payload.decode("ascii").strip()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MessageRefused("malformed", "not JSON" if json else "not a number") from error


def value_at(found: Any, path: tuple[str, ...]) -> Any:
    """Return the value at a path: keys of objects, indices of lists.

    Raises:
        MessageRefused: if there is no value at that path.
    """
    for part in path:
        if isinstance(found, dict) and part in found:
            found = found[part]
        elif isinstance(found, list) and part.isdecimal() and int(part) < len(found):
            found = found[int(part)]
        else:
            raise MessageRefused("no-value", "there is no value at the declared path; compare it with a message")
    return found


def parse_number(value: Any) -> float:
    """Return a finite number, or a decimal in a string.

    Raises:
        MessageRefused: if the value is neither.
    """
    if isinstance(value, str) and len(value) <= _LONGEST and _DECIMAL.fullmatch(value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise MessageRefused("not-a-number", "the declared value is not a number")
    if not -_LARGEST_VALUE <= value <= _LARGEST_VALUE:  # neither is NaN
        raise MessageRefused("not-a-number", "the declared value is not finite, or larger than any meter can read")
    return float(value)


def possible_times(value: Any, form: TimeFormat, zone: str | None = None) -> list[float]:
    """Return possible meanings of a time as Unix time, earliest first; two in the hour that a zone repeats.

    Args:
        value: the time as published.
        form: format of the time.
        zone: time zone of times that do not state one.

    Raises:
        MessageRefused: if the time does not have the declared format, names no zone where none is declared, or is in
            the hour that the zone leaves out.
    """
    if form != "iso8601":
        return [parse_number(value) / _IN_A_SECOND[form]]
    if not isinstance(value, str) or len(value) > _LONGEST:
        raise MessageRefused("no-time", "the declared time is not text")
    try:
        moment = datetime.fromisoformat(value)
    except ValueError as error:
        raise MessageRefused("no-time", "the declared time does not follow ISO 8601") from error
    if moment.tzinfo is not None:
        return [moment.timestamp()]
    if zone is None:
        raise MessageRefused("no-time", "the time names no zone; declare the meter's time_zone, such as Europe/Berlin")
    there = ZoneInfo(zone)
    meant = {moment.replace(tzinfo=there, fold=fold).timestamp() for fold in (0, 1)}
    if not (found := sorted(at for at in meant if datetime.fromtimestamp(at, there).replace(tzinfo=None) == moment)):
        raise MessageRefused("no-time", "this time does not exist in the declared time_zone")
    return found
