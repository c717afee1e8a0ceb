"""Run decided claims again with seeds that no stored result used, and compare the verdicts."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from sottovoce_lab.experiments import saved_runs
from sottovoce_lab.experiments.saved_runs import Outcome
from sottovoce_lab.papers.cells import Cells, build_cells
from sottovoce_lab.papers.result import load_result, restore_cells
from sottovoce_lab.papers.runs import RunPosition, list_runs
from sottovoce_lab.papers.specification import Experiment, experiments, papers, read_experiment
from sottovoce_lab.papers.verdicts import Finding, compute_findings, is_selected

FIRST_SEED = 1000
"""The first new seed; stored results use 0 to 149."""
MAX_SECONDS = 60.0
"""Maximum processor time of a drawn claim's runs with one seed, so that twenty claims take less than an hour."""

FILE = "again.csv"
"""Name of the table of claims that were run again, beside the index."""

_HEADER = ("figure", "panel", "claim", "verdict", "again", "seeds", "numbers")


@dataclass(frozen=True, slots=True)
class DecidedClaim:
    """A claim with a verdict on the stored numbers of one panel.

    Attributes:
        name: the experiment name, `PAPER/FIGURE`.
        spec: the experiment's specification with this claim alone.
        cells: the stored cells that the claim compares.
        finding: the finding on these cells.
        seconds: the processor time of the runs with one seed.
    """

    name: str
    spec: Experiment
    cells: Cells
    finding: Finding
    seconds: float


@dataclass(frozen=True, slots=True)
class Repetition:
    """A row of the table of claims that were run again: a stored verdict, and the verdict with new seeds."""

    figure: str
    panel: str
    claim: str
    verdict: str
    again: str
    seeds: int
    numbers: str


def draw_claims(decided: Iterable[DecidedClaim], count: int, seed: int) -> list[DecidedClaim]:
    """Draw claims, in their order, from those whose runs cost at most `MAX_SECONDS` per seed."""
    candidates = [claim for claim in decided if claim.seconds <= MAX_SECONDS]
    drawn = np.random.default_rng(seed).choice(len(candidates), min(count, len(candidates)), replace=False)
    return [candidates[index] for index in sorted(drawn.tolist())]


def list_decided(out: Path) -> Iterator[DecidedClaim]:
    """Yield the claims that a folder of stored results decides, in the order of the specifications."""
    for name in (name for paper in papers() for name in experiments(paper)):
        result = load_result(out / f"{name}.json")
        if result is None or result.quick:
            continue
        cells = restore_cells(result)
        seconds = result.wall_s * saved_runs.AT_ONCE / sum(len(cell.measures) for cell in cells.values())
        for spec, compared in _split(read_experiment(name), cells):
            for finding in compute_findings(spec, compared):
                if finding.verdict != "open":
                    yield DecidedClaim(name, spec, compared, finding, seconds * len(compared))


def list_new_runs(claim: DecidedClaim, folder: Path) -> dict[RunPosition, dict[str, Any]]:
    """Return the keys of a claim's runs with new seeds, as many per cell as are stored."""
    panels, series, x, y = (list(dict.fromkeys(values)) for values in zip(*claim.cells, strict=True))
    extent = replace(claim.spec.full, seeds=1, more_seeds=[], panels=panels, series=series, x=x, y=y)
    return {
        RunPosition(*cell, seed): {**keys, "seed": FIRST_SEED + seed}
        for position, keys in list_runs(claim.spec, extent, folder, print).items()
        if (cell := (position.panel, position.series, position.x, position.y)) in claim.cells
        for seed in range(len(claim.cells[cell].measures))
    }


def compare(claim: DecidedClaim, outcomes: Mapping[RunPosition, Outcome]) -> Repetition:
    """Return a claim's stored verdict beside the verdict on the outcomes with new seeds."""
    (found,) = compute_findings(claim.spec, build_cells(outcomes, claim.spec.measure))
    stored = claim.finding
    return Repetition(
        claim.name, stored.panel, stored.claim, stored.verdict, found.verdict, found.seeds, found.evidence
    )


def _split(spec: Experiment, cells: Cells) -> Iterator[tuple[Experiment, Cells]]:
    """Yield, for each claim and panel and for each printed value, a specification of it alone and its cells."""
    for panel in dict.fromkeys(key[0] for key in cells):
        for claim in (claim for claim in spec.claims if not claim.panels or panel in claim.panels):
            compared = {
                key: cell
                for key, cell in cells.items()
                if key[0] == panel and key[1] in (claim.series, *claim.than)
                if is_selected(key[2], claim.x) and is_selected(key[3], claim.y)
            }
            yield replace(spec, claims=[claim], printed={}), compared
    for key, cell in cells.items():
        panel, series, x, _ = key
        if (printed := spec.printed.get(panel, {}).get(series, {}).get(str(x))) is not None:
            yield replace(spec, claims=[], printed={panel: {series: {str(x): printed}}}), {key: cell}


def write_rows(rows: Sequence[Repetition], path: Path) -> None:
    """Write the table of claims that were run again."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_HEADER)
        writer.writerows([getattr(row, name) for name in _HEADER] for row in rows)


def read_rows(path: Path) -> list[Repetition]:
    """Read the table of claims that were run again; it is empty if the file does not exist."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [msgspec.convert(row, Repetition, strict=False) for row in csv.DictReader(file)]
