"""Status lines about devices with which a device exchanges no models because their tasks differ."""

from collections.abc import Mapping, Sequence
from typing import Any


def other_task_lines(others: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return one line for each entry of `task.others` in a status."""
    return [
        f"{other['devices']} device{'' if other['devices'] == 1 else 's'} of another task: "
        + ("; ".join(other["differences"]) or "details are not known yet")
        for other in others
    ]
