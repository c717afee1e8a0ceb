"""What a testbed over processes shows to others while it runs: where its agents are, and how well they do."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sottovoce.errors import NetworkError
from sottovoce.testbed.options import Options
from sottovoce.testbed.progress import Moment, Watcher
from sottovoce.testbed.run_facts import curve_point

NAME = "progress.json"
_ALWAYS = {"learner", "data", "cycles", "cycle"}
_MODULE = b"sottovoce.testbed.process"


class Showing:
    """A watcher that leaves the newest measures in the testbed's directory, too, in place of those before.

    Args:
        watcher: is told all the same.
        options: what runs.
        directory: that the agents' state directories are in.
    """

    def __init__(self, watcher: Watcher, options: Options, directory: Path) -> None:
        self._watcher = watcher
        self._facts = {"learner": options.learner, "data": options.data, "cycles": options.cycles}
        self._directory = directory

    def note(self, text: str) -> None:
        """See Watcher.note."""
        self._watcher.note(text)

    def moment(self, moment: Moment) -> None:
        """See Watcher.moment."""
        draft = self._directory / f".{NAME}.new"
        draft.write_text(json.dumps({**self._facts, **curve_point(moment)}))
        draft.replace(self._directory / NAME)
        self._watcher.moment(moment)


def read_progress(directory: Path) -> dict[str, Any] | None:
    """What a testbed has measured last; None before it has, and where another program's file has that name."""
    try:
        document = json.loads((directory / NAME).read_text())
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) and document.keys() >= _ALWAYS else None


def states(directory: Path) -> list[Path]:
    """The state directories of a testbed's agents, in order."""
    return sorted(config.parent for config in directory.glob("agent-*/agent.toml"))


def newest(processes: Path = Path("/proc")) -> Path:
    """The directory of the testbed that this user started last, of those that run on this machine.

    Args:
        processes: where the kernel lists them.

    Raises:
        NetworkError: there is none.
    """
    found = [directory for directory in _directories(processes) if directory.is_dir()]
    if not found:
        raise NetworkError(
            "no testbed of yours is running here: start one with `sottovoce testbed`, or name its directory"
        )
    return max(found, key=lambda directory: directory.stat().st_ctime)


def _directories(processes: Path) -> Iterator[Path]:
    """Of every agent process of a testbed of this user: its command line names its configuration file."""
    for process in processes.glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            if _MODULE in words and process.stat().st_uid == os.getuid():
                yield Path(os.fsdecode(words[words.index(_MODULE) + 1])).parent.parent
        except (OSError, IndexError):
            continue  # it has ended meanwhile
