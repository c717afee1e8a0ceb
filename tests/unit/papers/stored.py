"""The stored results of the papers, which the documentation shows."""

import csv
from pathlib import Path

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "docs" / "results"


def claims_of(paper: str) -> list[dict[str, str]]:
    """Return the rows of a paper's table of claims."""
    with (RESULTS / paper / "claims.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))
