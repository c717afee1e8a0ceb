"""Windows of energy that a home's feed has stored, as records, and the meter sources that other packages provide."""

from sottovoce.data.feed.meter_source import MeterSource
from sottovoce.data.feed.store import Heard, Summary, WindowStore, read_windows, summary
from sottovoce.data.feed.windows import MISSING, Window, Windows

__all__ = [
    "MISSING",
    "Heard",
    "MeterSource",
    "Summary",
    "Window",
    "WindowStore",
    "Windows",
    "read_windows",
    "summary",
]
