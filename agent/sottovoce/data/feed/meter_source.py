"""Meter sources from other packages, as entry points of the group `sottovoce.sources`."""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class MeterSource:
    """Source of meters' messages instead of a broker: a serial port, a web page, a file.

    Attributes:
        messages: function that, given the table `[feed.settings]`, yields (topic, payload) as a broker would publish
            them; the format of each meter defines their meaning. Raises OSError or EOFError if the source is
            unavailable: it is called again later.
    """

    messages: Callable[[Mapping[str, Any]], AsyncIterator[tuple[str, bytes]]]
