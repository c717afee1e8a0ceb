"""Result of an experiment as stored in its JSON file: `sottovoce.result/1`."""

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from sottovoce.errors import DataError

SCHEMA = "sottovoce.result/1"


class ResultCell(Struct, frozen=True, kw_only=True):
    """Runs at one place: see `papers.cells.Cell`."""

    panel: str
    series: str
    x: Any
    y: Any
    mean: float
    half_interval_95: float | None
    measures: list[float]
    majority_class: float | None
    printed: float | None
    privacy: dict[str, Any]


class ResultFinding(Struct, frozen=True, kw_only=True):
    """See `papers.verdicts.Finding`."""

    claim: str
    of: str
    panel: str
    verdict: str
    seeds: int
    evidence: str


class Result(Struct, frozen=True, kw_only=True):
    """Result of an experiment that was run.

    Attributes:
        name: `PAPER/FIGURE`.
        quick: whether the experiment is the coarse one.
        wall_s: duration in seconds, including runs that an earlier call kept.
        version: version of Sottovoce.
        cells: numbers of the experiment, cell by cell.
        findings: verdicts on the claims.
    """

    schema: str
    name: str
    quick: bool
    wall_s: float
    version: str
    cells: list[ResultCell]
    findings: list[ResultFinding]


def result_at(path: Path) -> Result | None:
    """Read the result in a file; None if there is no file.

    Raises:
        DataError: if the file is not a result.
    """
    if not path.exists():
        return None
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Result)
    except msgspec.DecodeError as error:
        raise DataError(f"{path}: not a result ({error}); delete it, and reproduce the figure again") from error
    return found
