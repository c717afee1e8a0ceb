"""Simulated experiments, each of which turns settings into a report."""

from sottovoce_lab.experiments import events
from sottovoce_lab.experiments.builtins import load_experiment, names
from sottovoce_lab.experiments.run import run
from sottovoce_lab.experiments.settings import KEYS, Settings, build_settings, from_assignments, from_file

__all__ = [
    "KEYS",
    "Settings",
    "build_settings",
    "events",
    "from_assignments",
    "from_file",
    "load_experiment",
    "names",
    "run",
]
