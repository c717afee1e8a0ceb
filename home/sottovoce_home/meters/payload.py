"""Extraction of the declared values from a payload. Everything else in the payload is discarded here."""

import re
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
from sottovoce.errors import MessageRefused

from sottovoce_home.meters.source import TimeFormat

MAX_PAYLOAD_BYTES = 65_536
"""Maximum size of a payload, in bytes."""

_DECIMAL = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d{1,3})?", re.ASCII)
_MAX_CHARACTERS = 40
_MAX_VALUE = 1e13  # a counter in Wh, or a time in milliseconds
_FIRST_YEAR, _LAST_YEAR = 1971, 9998  # in other years, a conversion between time zones can leave Python's calendar
_UNITS_PER_SECOND = {"seconds": 1.0, "milliseconds": 1000.0}


def parse_payload(payload: bytes, json: bool) -> Any:
    """Return the content of a payload, either as parsed JSON or as text.

    Raises:
        MessageRefused: if the payload is too large or malformed.
    """
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise MessageRefused("too-large", f"the payload is longer than {MAX_PAYLOAD_BYTES} bytes")
    try:
        return msgspec.json.decode(payload) if json else payload.decode("ascii").strip()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MessageRefused("malformed", "not JSON" if json else "not a number") from error


def extract_value(content: Any, path: tuple[str, ...]) -> Any:
    """Return the value at a path, which consists of object keys and list indices.

    Raises:
        MessageRefused: if there is no value at that path.
    """
    for part in path:
        if isinstance(content, dict) and part in content:
            content = content[part]
        elif isinstance(content, list) and part.isdecimal() and int(part) < len(content):
            content = content[int(part)]
        else:
            raise MessageRefused("no-value", "there is no value at the declared path; compare the path with a message")
    return content


def parse_number(value: Any) -> float:
    """Return a finite number, which may be given as a decimal string.

    Raises:
        MessageRefused: if the value is neither a finite number nor a decimal string, or is implausibly large.
    """
    if isinstance(value, str) and len(value) <= _MAX_CHARACTERS and _DECIMAL.fullmatch(value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise MessageRefused("not-a-number", "the declared value is not a number")
    if not -_MAX_VALUE <= value <= _MAX_VALUE:  # also refuses NaN
        raise MessageRefused("not-a-number", "the declared value is not finite, or is larger than any meter reading")
    return float(value)


def possible_times(value: Any, form: TimeFormat, zone: str | None = None) -> list[float]:
    """Return the possible Unix times for a published time, earliest first; a time in a repeated hour has two.

    Args:
        value: time as published.
        form: format of the time.
        zone: time zone for times without a zone of their own.

    Raises:
        MessageRefused: if the time does not have the declared format, if neither the time nor the declaration has a
            time zone, or if the time is in an hour that the time zone skips.
    """
    if form != "iso8601":
        return [parse_number(value) / _UNITS_PER_SECOND[form]]
    if not isinstance(value, str) or len(value) > _MAX_CHARACTERS:
        raise MessageRefused("no-time", "the declared time is not text")
    try:
        moment = datetime.fromisoformat(value)
    except ValueError as error:
        raise MessageRefused("no-time", "the declared time does not follow ISO 8601") from error
    if not _FIRST_YEAR <= moment.year <= _LAST_YEAR:
        raise MessageRefused("no-time", f"the year {moment.year} cannot be that of a reading; set the meter's clock")
    if moment.tzinfo is not None:
        return [moment.timestamp()]
    if zone is None:
        raise MessageRefused("no-time", "the time has no zone; declare the meter's time_zone, such as Europe/Berlin")
    time_zone = ZoneInfo(zone)
    candidates = {moment.replace(tzinfo=time_zone, fold=fold).timestamp() for fold in (0, 1)}
    if not (
        times := sorted(at for at in candidates if datetime.fromtimestamp(at, time_zone).replace(tzinfo=None) == moment)
    ):
        raise MessageRefused("no-time", "this time does not exist in the declared time_zone")
    return times
