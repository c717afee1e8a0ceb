"""Write the output files of experiments: PAPER/FIGURE.json and .svg, PAPER.md, and index.md for all papers."""

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import sottovoce
from sottovoce.errors import DataError

from sottovoce_lab.experiments import saved_runs
from sottovoce_lab.pages.pyplot import pyplot
from sottovoce_lab.papers import pictures, plane
from sottovoce_lab.papers.cells import Cells, build_cells
from sottovoce_lab.papers.pages import index_page, paper_page
from sottovoce_lab.papers.result import SCHEMA, Result, load_result
from sottovoce_lab.papers.runs import collect_outcomes, list_runs
from sottovoce_lab.papers.specification import Experiment, experiments, papers, read_experiment
from sottovoce_lab.papers.verdicts import Finding, compute_findings


def reproduce(
    name: str,
    *,
    quick: bool,
    seeds: int | None = None,
    folder: Path,
    out: Path,
    say: Callable[[str], None],
    progress: Callable[[int, int, str], None],
) -> list[Finding]:
    """Run an experiment, and write its JSON file and picture, without repeating runs that an earlier call saved.

    Args:
        name: the experiment name, `PAPER/FIGURE`.
        quick: whether to run the coarse version of the experiment.
        seeds: the number of seeds per series; None for the experiment's default.
        folder: the directory with the data sets.
        out: the output directory, created if it is missing.
        say: receives a message about each panel that is left out.
        progress: receives the number of completed runs, the total, and a description of the last run.

    Returns:
        The findings on the experiment's claims.

    Raises:
        UsageError: if the experiment does not exist, or the plotting package is not installed.
        DataError: if the folder contains none of the experiment's data sets.
    """
    started = time.monotonic()
    spec = read_experiment(name)
    pyplot()  # if matplotlib is missing, fail before hours of runs
    extent = spec.extent(quick)
    extent = msgspec.structs.replace(extent, seeds=seeds or extent.seeds)
    runs = list_runs(spec, extent, folder, say)
    if not runs:
        raise DataError(f"{name}: none of its data sets is in {folder}; specify their folder with --data")
    path = out / name
    path.parent.mkdir(parents=True, exist_ok=True)
    outcomes = collect_outcomes(runs, path.parent / ("quick.runs.jsonl" if quick else "full.runs.jsonl"), progress)
    results = build_cells({position: outcomes[position] for position in runs}, spec.measure)
    verdicts = compute_findings(spec, results)
    distinct_outcomes = {id(outcome): outcome for outcome in outcomes.values()}.values()
    saved_seconds = sum(outcome.get("seconds", 0.0) for outcome in distinct_outcomes)
    wall = max(time.monotonic() - started, saved_seconds / saved_runs.AT_ONCE)
    document = _document(name, spec, quick, results, verdicts, wall)
    path.with_suffix(".json").write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if spec.picture == "plane":
        plane.draw(spec, runs, path.with_suffix(".svg"))
    else:
        pictures.draw(spec, results, path.with_suffix(".svg"))
    return verdicts


def write_pages(out: Path) -> None:
    """Write index.md, and PAPER.md for each paper with results, from the JSON files in a folder."""
    all_results: dict[str, list[Result]] = {}
    for paper in papers():
        results = [result for name in experiments(paper) if (result := load_result(out / f"{name}.json"))]
        if results:
            all_results[paper] = results
            (out / f"{paper}.md").write_text(paper_page(paper, results), encoding="utf-8")
    (out / "index.md").write_text(index_page(all_results), encoding="utf-8")


def _document(
    name: str, spec: Experiment, quick: bool, results: Cells, verdicts: list[Finding], wall: float
) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "name": name,
        "quick": quick,
        "wall_s": round(wall, 1),
        "version": sottovoce.__version__,
        "cells": [
            {
                "panel": panel,
                "series": series,
                "x": _json_value(x),
                "y": _json_value(y),
                "mean": round(cell.mean, 5),
                "half_interval_95": None if math.isnan(cell.half_width) else round(cell.half_width, 5),
                "measures": [round(value, 5) for value in cell.measures.tolist()],
                "majority_class": None if cell.majority is None else round(cell.majority, 5),
                "printed": spec.printed.get(panel, {}).get(series, {}).get(str(x)),
                "privacy": cell.privacy,
            }
            for (panel, series, x, y), cell in results.items()
        ],
        "findings": [_finding_fields(finding) for finding in verdicts],
    }


def _finding_fields(finding: Finding) -> dict[str, Any]:
    return {name: getattr(finding, name) for name in ("claim", "of", "panel", "verdict", "seeds", "evidence")}


def _json_value(value: Any) -> Any:
    return "inf" if value == math.inf else value
