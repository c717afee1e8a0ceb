"""Testbeds that run on this machine: their directories and last measurements."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sottovoce.errors import NetworkError

PROGRESS = "progress.json"
"""Where a testbed writes it, in its directory."""

_ALWAYS = {"learner", "data", "cycles", "cycle"}
_AGENT = b"sottovoce_lab.testbed.process"  # what runs its agents


def read_progress(directory: Path) -> dict[str, Any] | None:
    """Newest measurement of a testbed; None before the first, and where another program's file has that name."""
    try:
        document = json.loads((directory / PROGRESS).read_text())
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
        NetworkError: if there is none.
    """
    found = [directory for directory in _directories(processes) if directory.is_dir()]
    if not found:
        raise NetworkError(
            "no testbed of yours is running here: start one with `sottovoce testbed`, or name its directory"
        )
    return max(found, key=lambda directory: directory.stat().st_ctime)


def _directories(processes: Path) -> Iterator[Path]:
    """State directories of this user's testbed agents: each command line names its configuration file."""
    for process in processes.glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            if _AGENT in words and process.stat().st_uid == os.getuid():
                yield Path(os.fsdecode(words[words.index(_AGENT) + 1])).parent.parent
        except (OSError, IndexError):
            continue  # it has ended meanwhile
