"""Meter sources that other packages bring, as entry points of the group `sottovoce.sources`."""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class MeterSource:
    """Source of meters' messages in place of a broker: a serial port, a web page, a file.

    Attributes:
        messages: given the table `[feed.settings]`, yields (topic, payload) as a broker would publish them; the
            format of each meter says what they mean. Raises OSError or EOFError when the source is away: it is
            called again later.
    """

    messages: Callable[[Mapping[str, Any]], AsyncIterator[tuple[str, bytes]]]
