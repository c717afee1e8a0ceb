"""Simulated experiments: from declared settings to a report, and the figures of the papers."""

from sottovoce.experiments import events
from sottovoce.experiments.builtins import named, names
from sottovoce.experiments.run import run
from sottovoce.experiments.settings import KEYS, Settings, from_assignments, from_file, settings

__all__ = ["KEYS", "Settings", "events", "from_assignments", "from_file", "named", "names", "run", "settings"]
