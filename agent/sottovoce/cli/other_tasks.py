"""Status lines about devices with other tasks, with which a device exchanges no models."""

from collections.abc import Mapping, Sequence
from typing import Any


def other_task_lines(others: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return one line for each entry of `task.others` in a status."""
    return [
        f"{group['devices']} device{'' if group['devices'] == 1 else 's'} with another task: "
        + ("; ".join(group["differences"]) or "details are not known yet")
        for group in others
    ]
