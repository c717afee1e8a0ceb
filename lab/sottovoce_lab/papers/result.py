"""The part of an experiment's JSON file, `sottovoce.experiment/1`, from which verdicts and pages are computed."""

import math
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from sottovoce.errors import DataError

from sottovoce_lab.papers.cells import Cell, Cells

SCHEMA = "sottovoce.experiment/1"


class ResultCell(Struct, frozen=True, kw_only=True):
    """The runs at one position in an experiment. See `papers.cells.Cell`."""

    panel: str
    series: str
    x: Any
    y: Any
    measures: list[float]
    majority_class: float | None
    privacy: dict[str, Any]


class Result(Struct, frozen=True, kw_only=True):
    """The result of a completed experiment.

    Attributes:
        name: the experiment name, `PAPER/FIGURE`.
        quick: whether the coarse version of the experiment was run.
        wall_s: the CPU time of all runs divided by the number of processors, in seconds.
        version: the Sottovoce version.
        cells: the experiment's numbers, cell by cell.
    """

    name: str
    quick: bool
    wall_s: float
    version: str
    cells: list[ResultCell]


def load_result(path: Path) -> Result | None:
    """Read a result from a file, or return None if the file does not exist.

    Raises:
        DataError: if the file does not contain a result.
    """
    if not path.exists():
        return None
    try:
        result = msgspec.json.decode(path.read_bytes(), type=Result)
    except msgspec.DecodeError as error:
        raise DataError(f"{path}: not a result ({error}); delete it and reproduce the figure") from error
    return result


def restore_cells(result: Result) -> Cells:
    """Return a result's cells, without the curves, which are not stored."""
    return {
        (cell.panel, cell.series, _number(cell.x), _number(cell.y)): Cell(
            np.array(cell.measures), {}, cell.privacy, cell.majority_class
        )
        for cell in result.cells
    }


def _number(value: Any) -> Any:
    return math.inf if value == "inf" else value
