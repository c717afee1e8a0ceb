"""Meter sources that other packages provide as entry points in the group `sottovoce.sources`."""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class MeterSource:
    """A source of meter messages other than a broker, such as a serial port, a web page or a file.

    Attributes:
        messages: function that receives the table `[feed.settings]` and yields (topic, payload) as a broker would
            publish them; the format of each meter defines their meaning. The function raises OSError or EOFError if
            the source is unavailable, and is then called again later.
    """

    messages: Callable[[Mapping[str, Any]], AsyncIterator[tuple[str, bytes]]]
