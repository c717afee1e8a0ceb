"""Execute a simulation on the vector engine, from settings to a report."""

from typing import Any

from sottovoce.errors import UsageError

from sottovoce_lab.experiments import golf, gradient_walk, sequential
from sottovoce_lab.experiments.fleet import Fleet, assemble
from sottovoce_lab.experiments.settings import Settings
from sottovoce_lab.simulator.trace import check_traceable
from sottovoce_lab.testbed.progress import Watcher


def run(settings: Settings, watcher: Watcher, traced: bool = False) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Run a simulation.

    Args:
        settings: the settings for the run.
        watcher: receives progress updates.
        traced: whether to record every message and state; only for small runs of `golf`.

    Returns:
        The report, and the trace if one was requested.

    Raises:
        DataError, PrivacyError, UsageError: if the simulation cannot run; the message suggests a remedy.
    """
    if traced and settings.learner.name != "golf":
        raise UsageError(
            "--trace supports only the learner golf; a walk has a single model, which the report already tracks"
        )
    fleet = assemble(settings)
    if traced:
        check_traceable(len(fleet.records), settings.cycles)
    return run_fleet(fleet, watcher, traced)


def run_fleet(fleet: Fleet, watcher: Watcher, traced: bool = False) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Run a fleet that is already assembled."""
    settings = fleet.settings
    if settings.learner.name == "golf":
        return golf.run(fleet, watcher, traced)
    return (gradient_walk if settings.learner.name == "gradient-walk" else sequential).run(fleet, watcher), None
