"""Parsing of durations as users write them: a number followed by s, m, h or d."""

import re

from sottovoce.errors import UsageError

_SPAN = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<unit>[smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_LONGEST_SECONDS = 100 * 365 * 86_400


def parse_duration(text: str, option: str) -> float:
    """Parse a duration and return it in seconds; `option` is the option's name for the error message.

    Raises:
        UsageError: if the text is not a duration, or the duration is zero or longer than 100 years.
    """
    match = _SPAN.fullmatch(text.strip())
    seconds = float(match["number"]) * _SECONDS[match["unit"]] if match else 0.0
    if not 0 < seconds <= _LONGEST_SECONDS:
        raise UsageError(f"{option}: {text!r} is not a valid duration; use, for example, 30s, 5m, 12h or 90d")
    return seconds
