"""Live meter feeds, which reduce the messages of a home's broker to windows of energy and store only the windows."""

from sottovoce.data.feed.meter import Arrival, Meter
from sottovoce.data.feed.meter_source import MeterSource
from sottovoce.data.feed.payload import LARGEST
from sottovoce.data.feed.source import Source, TimeFormat, Value
from sottovoce.data.feed.store import Heard, Summary, WindowStore, read_windows, summary
from sottovoce.data.feed.windows import MISSING, Window, Windows

__all__ = [
    "LARGEST",
    "MISSING",
    "Arrival",
    "Heard",
    "Meter",
    "MeterSource",
    "Source",
    "Summary",
    "TimeFormat",
    "Value",
    "Window",
    "WindowStore",
    "Windows",
    "read_windows",
    "summary",
]
