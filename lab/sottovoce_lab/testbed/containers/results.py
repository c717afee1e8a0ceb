"""The report on a container fleet, in the format of the document that `sottovoce testbed` writes."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from sottovoce_lab.testbed.containers.fleet import ContainerFleet
from sottovoce_lab.testbed.containers.settings import ContainerSettings
from sottovoce_lab.testbed.plan import plan
from sottovoce_lab.testbed.processes import run_watched
from sottovoce_lab.testbed.progress import Moment, Watcher

_TIMEOUT_SECONDS = 300.0
_ROWS = 12


class LineWatcher(Watcher):
    """A watcher that prints occasional progress lines to standard error."""

    def note(self, text: str) -> None:
        """Print the note; see Watcher.note."""
        print(text, file=sys.stderr, flush=True)  # noqa: T201

    def show_moment(self, moment: Moment) -> None:
        """Print a line for some of the moments; see Watcher.show_moment."""
        if moment.cycle % max(1, moment.cycles // _ROWS) == 0:
            measures = moment.measures
            value = measures.loss_mean if measures.accuracy_mean is None else measures.accuracy_mean
            name = "loss" if measures.accuracy_mean is None else "accuracy"
            self.note(f"cycle {moment.cycle} of {moment.cycles}  alive {moment.alive}  {name} {value:.3f}")


def results(settings: ContainerSettings, root: Path) -> dict[str, Any]:
    """Watch the fleet until every agent has completed its cycles, and return a report.

    Args:
        settings: the settings with which the fleet was prepared.
        root: the root directory of the places.

    Returns:
        A `sottovoce.report/1` document.
    """
    fleets: list[ContainerFleet] = []

    def build() -> ContainerFleet:
        fleets.append(ContainerFleet(root, settings.options.agents, _TIMEOUT_SECONDS))
        return fleets[0]

    report = run_watched(plan(settings.options), LineWatcher(), build)
    faults = fleets[0].faults
    fault_warnings = [
        f"fault {specification} was injected for {count} of {settings.options.agents} agents"
        for specification, count in faults.items()
    ]
    final_report = replace(
        report,
        run={**report.run, "transport": ",".join(settings.use)},
        faults=list(faults),
        warnings=report.warnings + fault_warnings,
    )
    return final_report.document()
