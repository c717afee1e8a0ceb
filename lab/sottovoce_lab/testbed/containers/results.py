"""The report on a container fleet, in the format of the document that `sottovoce testbed` writes."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from sottovoce_lab.testbed.containers.asked import Asked
from sottovoce_lab.testbed.containers.fleet import ContainerFleet
from sottovoce_lab.testbed.plan import plan
from sottovoce_lab.testbed.processes import run_watched
from sottovoce_lab.testbed.progress import Moment, Watcher

_PATIENCE = 300.0
_ROWS = 12


class Lines(Watcher):
    """A watcher that prints occasional progress lines to standard error."""

    def note(self, text: str) -> None:
        """Print the note; see Watcher.note."""
        print(text, file=sys.stderr, flush=True)  # noqa: T201

    def show_moment(self, moment: Moment) -> None:
        """Print a line for some of the moments; see Watcher.show_moment."""
        if moment.cycle % max(1, moment.cycles // _ROWS) == 0:
            measures = moment.measures
            found = measures.loss_mean if measures.accuracy_mean is None else measures.accuracy_mean
            name = "loss" if measures.accuracy_mean is None else "accuracy"
            self.note(f"cycle {moment.cycle} of {moment.cycles}  alive {moment.alive}  {name} {found:.3f}")


def results(asked: Asked, root: Path) -> dict[str, Any]:
    """Watch the fleet until every agent has completed its cycles, and return a report.

    Args:
        asked: the settings with which the fleet was prepared.
        root: the root directory of the places.

    Returns:
        A `sottovoce.report/1` document.
    """
    fleets: list[ContainerFleet] = []

    def build() -> ContainerFleet:
        fleets.append(ContainerFleet(root, asked.options.agents, _PATIENCE))
        return fleets[0]

    report = run_watched(plan(asked.options), Lines(), build)
    faults = fleets[0].faults
    afflicted = [
        f"fault {word} was injected for {count} of {asked.options.agents} agents" for word, count in faults.items()
    ]
    told = replace(
        report,
        run={**report.run, "transport": ",".join(asked.use)},
        faults=list(faults),
        warnings=report.warnings + afflicted,
    )
    return told.document()
