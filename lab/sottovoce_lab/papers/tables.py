"""Tables in CSV beside a paper's page: every claim with its verdict, and every number with its interval."""

import csv
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sottovoce_lab.papers.pages import Evaluated
from sottovoce_lab.papers.verdicts import Finding

_CLAIMS = ("figure", "claim", "of", "panel", "verdict", "seeds", "numbers", "cause", "needs")
_NUMBERS = (
    *("figure", "panel", "series", "x", "y", "seeds", "mean", "low_95", "high_95", "majority_class", "printed"),
    *("epsilon", "delta", "unit", "neighbouring", "status"),
)


def write_claims(findings: Iterable[tuple[str, Finding]], path: Path) -> None:
    """Write a row for each finding, with its figure."""
    rows = (
        (figure, f.claim, f.of, f.panel, f.verdict, f.seeds, f.evidence, f.cause, f.needs) for figure, f in findings
    )
    _write(path, _CLAIMS, rows)


def write_numbers(experiments: list[Evaluated], path: Path) -> None:
    """Write a row for each cell of a paper's experiments."""
    rows = (
        (
            *(entry.figure, entry.spec.panels[panel].label, entry.spec.series[series].label, x, y),
            *(len(cell.measures), f"{cell.mean:.5g}"),
            *(f"{end:.5g}" for end in cell.interval(entry.spec.measure) or (math.nan, math.nan)),
            cell.majority,
            entry.spec.printed.get(panel, {}).get(series, {}).get(str(x)),
            *(cell.privacy[name] for name in _NUMBERS[-5:]),
        )
        for entry in experiments
        for (panel, series, x, y), cell in entry.cells.items()
    )
    _write(path, _NUMBERS, rows)


def _write(path: Path, header: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
