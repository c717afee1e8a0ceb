"""Publish the agents' accuracy while a testbed of processes is running."""

import json
from pathlib import Path

from typing_extensions import override

from sottovoce_lab.testbed.options import Options
from sottovoce_lab.testbed.progress import Moment, Watcher
from sottovoce_lab.testbed.run_facts import curve_point
from sottovoce_lab.testbed.running import PROGRESS


class PublishingWatcher(Watcher):
    """A watcher that also writes the newest measures to the testbed's directory, replacing the previous ones.

    Args:
        watcher: another watcher, which receives every call.
        options: the run's options.
        directory: the parent directory of the agents' state directories.
    """

    def __init__(self, watcher: Watcher, options: Options, directory: Path) -> None:
        self._watcher = watcher
        self._facts = {"learner": options.learner, "data": options.data, "cycles": options.cycles}
        self._directory = directory

    @override
    def note(self, text: str) -> None:
        self._watcher.note(text)

    @override
    def advance(self, phase: str, done: int, total: int) -> None:
        self._watcher.advance(phase, done, total)

    @override
    def show_moment(self, moment: Moment) -> None:
        draft = self._directory / f".{PROGRESS}.new"
        draft.write_text(json.dumps({**self._facts, **curve_point(moment)}))
        draft.replace(self._directory / PROGRESS)
        self._watcher.show_moment(moment)
