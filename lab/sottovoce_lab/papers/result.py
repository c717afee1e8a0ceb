"""An experiment's result, as stored in its JSON file in the format `sottovoce.result/1`."""

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from sottovoce.errors import DataError

SCHEMA = "sottovoce.result/1"


class ResultCell(Struct, frozen=True, kw_only=True):
    """The runs at one position in an experiment. See `papers.cells.Cell`."""

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
    """A finding on a claim. See `papers.verdicts.Finding`."""

    claim: str
    of: str
    panel: str
    verdict: str
    seeds: int
    evidence: str


class Result(Struct, frozen=True, kw_only=True):
    """The result of a completed experiment.

    Attributes:
        name: the experiment name, `PAPER/FIGURE`.
        quick: whether the coarse version of the experiment was run.
        wall_s: the duration in seconds, including runs that an earlier call saved.
        version: the Sottovoce version.
        cells: the experiment's numbers, cell by cell.
        findings: the verdicts on the claims.
    """

    schema: str
    name: str
    quick: bool
    wall_s: float
    version: str
    cells: list[ResultCell]
    findings: list[ResultFinding]


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
