"""Meters, which reduce messages from a home's broker to energy windows."""

from sottovoce_home.meters.meter import Arrival, Meter
from sottovoce_home.meters.observation import DayFacts
from sottovoce_home.meters.payload import MAX_PAYLOAD_BYTES
from sottovoce_home.meters.reduction import CounterState
from sottovoce_home.meters.source import Source, TimeFormat, Value

__all__ = ["MAX_PAYLOAD_BYTES", "Arrival", "CounterState", "DayFacts", "Meter", "Source", "TimeFormat", "Value"]
