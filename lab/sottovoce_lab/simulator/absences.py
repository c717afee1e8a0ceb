"""Churn traces: lists of absent agents, with the cycles in which each absence begins and ends."""

import csv
from dataclasses import dataclass
from pathlib import Path

from sottovoce.errors import UsageError

_HEADER = ["agent", "down_cycle", "up_cycle"]
_MAX_DIGITS = 9


@dataclass(frozen=True, slots=True)
class Absence:
    """An agent's absence: a crash and the restart that follows it.

    Attributes:
        agent: the agent's index in the fleet, from 0.
        down_cycle: the cycle at which the agent is killed, from 1.
        up_cycle: the cycle at which the agent restarts.
    """

    agent: int
    down_cycle: int
    up_cycle: int


def read_absences(path: Path) -> tuple[Absence, ...]:
    """Read absences from a CSV file with lines `agent,down_cycle,up_cycle` and an optional header with these names.

    Raises:
        UsageError: if the file cannot be read, has no data lines or has a malformed line, which the message identifies.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = [(reader.line_num, row) for reader in [csv.reader(file)] for row in reader if row]
    except (OSError, ValueError, csv.Error) as error:
        raise UsageError(
            f"--fault churn=trace:{path}: the churn trace cannot be read ({error}); "
            "specify a CSV file with lines agent,down_cycle,up_cycle"
        ) from error
    if rows and rows[0][1] == _HEADER:
        del rows[0]
    if not rows:
        raise UsageError(
            f"--fault churn=trace:{path}: the file has no data lines; add lines agent,down_cycle,up_cycle, like 3,10,15"
        )
    return tuple(_absence(path, line, row) for line, row in rows)


def _absence(path: Path, line: int, row: list[str]) -> Absence:
    cells = [cell.strip() for cell in row]
    if len(cells) == 3 and all(cell.isascii() and cell.isdigit() and len(cell) <= _MAX_DIGITS for cell in cells):
        agent, down, up = map(int, cells)
        if 1 <= down < up:
            return Absence(agent, down, up)
    raise UsageError(
        f"--fault churn=trace:{path}: line {line} is not of the form agent,down_cycle,up_cycle, like 3,10,15; agents "
        "are numbered from 0 and cycles from 1, and up_cycle must be greater than down_cycle"
    )
