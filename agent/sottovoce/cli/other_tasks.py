"""Descriptions of devices with which a device exchanges no models because their tasks differ."""

from collections.abc import Mapping, Sequence
from typing import Any


def other_task_lines(others: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each other task, from `task.others` of a status."""
    return [
        f"{other['devices']} device{'' if other['devices'] == 1 else 's'} of another task: "
        + ("; ".join(other["differences"]) or "which is not known yet")
        for other in others
    ]
