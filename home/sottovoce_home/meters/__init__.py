"""Meters, which reduce the messages of a home's broker to windows of energy."""

from sottovoce_home.meters.meter import Arrival, Meter
from sottovoce_home.meters.payload import MAX_PAYLOAD_BYTES
from sottovoce_home.meters.source import Source, TimeFormat, Value

__all__ = ["MAX_PAYLOAD_BYTES", "Arrival", "Meter", "Source", "TimeFormat", "Value"]
