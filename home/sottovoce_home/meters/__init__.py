"""Meters, which reduce the messages of a home's broker to windows of energy."""

from sottovoce_home.meters.meter import Arrival, Meter
from sottovoce_home.meters.payload import LARGEST
from sottovoce_home.meters.source import Source, TimeFormat, Value

__all__ = ["LARGEST", "Arrival", "Meter", "Source", "TimeFormat", "Value"]
