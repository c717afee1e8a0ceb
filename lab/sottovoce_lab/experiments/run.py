"""Execution of a simulation, from settings to a report."""

from typing import Any

from sottovoce.errors import UsageError

from sottovoce_lab.experiments import golf, gradient_walk, sequential
from sottovoce_lab.experiments.fleet import Fleet, assemble
from sottovoce_lab.experiments.settings import Settings
from sottovoce_lab.testbed.progress import Watcher

LARGEST_TRACE = 2000
"""Largest product of agents and cycles of a traced run, which records every state and message."""


def run(settings: Settings, watcher: Watcher, traced: bool = False) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Run a simulation.

    Args:
        settings: settings of the run.
        watcher: receiver of the progress.
        traced: whether to record every message and state; for small runs of `golf` only.

    Returns:
        the report, and the trace if there is one.

    Raises:
        DataError, PrivacyError, UsageError: if the simulation cannot run; the message names the remedy.
    """
    if traced and settings.learner.name != "golf":
        raise UsageError("--trace supports only the learner golf: a walk has one model, which the report follows")
    fleet = assemble(settings)
    if traced and len(fleet.records) * settings.cycles > LARGEST_TRACE:
        raise UsageError(f"--trace supports at most {LARGEST_TRACE} agents times cycles; choose fewer")
    return run_fleet(fleet, watcher, traced)


def run_fleet(fleet: Fleet, watcher: Watcher, traced: bool = False) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Run a fleet that has already been assembled."""
    settings = fleet.settings
    if settings.learner.name == "golf":
        return golf.run(fleet, watcher, traced)
    return (gradient_walk if settings.learner.name == "gradient-walk" else sequential).run(fleet, watcher), None
