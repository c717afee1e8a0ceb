"""Directories and latest measurements of the testbeds that run on this machine."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sottovoce.errors import NetworkError

PROGRESS = "progress.json"
"""Name of the file in a testbed's directory that contains its newest measurement."""

_REQUIRED_KEYS = {"learner", "data", "cycles", "cycle"}
_AGENT_MODULE = b"sottovoce_lab.testbed.process"  # the module that runs a testbed's agents


def read_progress(directory: Path) -> dict[str, Any] | None:
    """Return a testbed's newest measurement; None before the first one, or if another program wrote the file."""
    try:
        document = json.loads((directory / PROGRESS).read_text())
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) and document.keys() >= _REQUIRED_KEYS else None


def state_directories(directory: Path) -> list[Path]:
    """Return the state directories of a testbed's agents, in order."""
    return sorted(config.parent for config in directory.glob("agent-*/agent.toml"))


def newest_testbed(processes: Path = Path("/proc")) -> Path:
    """Return the directory of the running testbed that this user started last on this machine.

    Args:
        processes: directory in which the kernel lists processes.

    Raises:
        NetworkError: if no testbed is running.
    """
    directories = [directory for directory in _directories(processes) if directory.is_dir()]
    if not directories:
        raise NetworkError(
            "you have no running testbed on this machine; start one with `sottovoce testbed`, or specify its directory"
        )
    return max(directories, key=lambda directory: directory.stat().st_ctime)


def _directories(processes: Path) -> Iterator[Path]:
    """Yield, for each testbed agent that this user runs, the testbed directory on its command line."""
    for process in processes.glob("[0-9]*"):
        try:
            arguments = (process / "cmdline").read_bytes().split(b"\0")
            if _AGENT_MODULE in arguments and process.stat().st_uid == os.getuid():
                yield Path(os.fsdecode(arguments[arguments.index(_AGENT_MODULE) + 1])).parent.parent
        except (OSError, IndexError):
            continue  # the process has ended in the meantime
