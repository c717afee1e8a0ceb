"""Meter sources that read a device itself instead of a broker; each needs an extra of `sottovoce`."""

from sottovoce_home.meter_sources.built_in import Messages, OwnSource, open_built_in
from sottovoce_home.meter_sources.waiting import SourceUnavailable

__all__ = ["Messages", "OwnSource", "SourceUnavailable", "open_built_in"]
