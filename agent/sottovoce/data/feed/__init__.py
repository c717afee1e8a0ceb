"""Windows of energy that a home's feed has stored, as records, and the meter sources that other packages provide."""

from sottovoce.data.feed.meter_source import MeterSource
from sottovoce.data.feed.store import MISSING, Window, Windows, read_windows

__all__ = ["MISSING", "MeterSource", "Window", "Windows", "read_windows"]
