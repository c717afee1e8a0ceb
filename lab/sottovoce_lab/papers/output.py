"""Write the output files of experiments: PAPER/FIGURE.json and .svg, PAPER.md with two tables in CSV, and index.md."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import sottovoce
from sottovoce.errors import DataError, UsageError

from sottovoce_lab.experiments import saved_runs
from sottovoce_lab.pages.pyplot import pyplot
from sottovoce_lab.papers import again, pictures, plane, tables
from sottovoce_lab.papers.cells import Cells, Interval, build_cells
from sottovoce_lab.papers.pages import Evaluated, index_page, list_findings, paper_page
from sottovoce_lab.papers.result import SCHEMA, load_result, restore_cells
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
    spec = read_experiment(name)
    pyplot()  # if matplotlib is missing, fail before hours of runs
    extent = spec.extent(quick)
    if seeds:
        extent = msgspec.structs.replace(extent, seeds=seeds, more_seeds=[])
    runs = list_runs(spec, extent, folder, say)
    if not runs:
        raise DataError(f"{name}: none of its data sets is in {folder}; specify their folder with --data")
    path = out / name
    path.parent.mkdir(parents=True, exist_ok=True)
    outcomes = collect_outcomes(runs, path.parent / ("quick.runs.jsonl" if quick else "full.runs.jsonl"), progress)
    results = build_cells({position: outcomes[position] for position in runs}, spec.measure)
    verdicts = compute_findings(spec, results)
    distinct_outcomes = {id(outcome): outcome for outcome in outcomes.values()}.values()
    wall = sum(outcome.get("seconds", 0.0) for outcome in distinct_outcomes) / saved_runs.AT_ONCE
    document = _document(name, spec, quick, results, verdicts, wall, sottovoce.__version__)
    _write_document(path.with_suffix(".json"), document)
    if spec.picture == "plane":
        plane.draw(spec, runs, path.with_suffix(".svg"))
    else:
        pictures.draw(spec, results, path.with_suffix(".svg"))
    return verdicts


def write_pages(out: Path, *, redraw: bool = False) -> None:
    """Write index.md and, for each paper with results, its page and tables, from the JSON files in a folder.

    Verdicts follow from the stored numbers and today's specifications, and are updated in the JSON files.

    Args:
        out: the output directory of `reproduce`.
        redraw: whether to draw the pictures again, except those of values that are not stored, such as curves.

    Raises:
        DataError: if a file does not contain a result.
        UsageError: if the folder contains no result, or the plotting package is needed and not installed.
    """
    evaluated: dict[str, list[Evaluated]] = {}
    for paper in papers():
        entries = [_evaluate(name, out, redraw) for name in experiments(paper)]
        if not any(entry.cells for entry in entries):
            continue
        evaluated[paper] = entries
        (out / f"{paper}.md").write_text(paper_page(paper, entries), encoding="utf-8")
        tables.write_claims(list_findings(paper, entries), out / paper / "claims.csv")
        tables.write_numbers(entries, out / paper / "numbers.csv")
    if not evaluated:
        raise UsageError(
            f"{out}: contains no results; run sottovoce reproduce --out {out}, or choose another directory"
        )
    (out / "index.md").write_text(index_page(evaluated, again.read_rows(out / again.FILE)), encoding="utf-8")


def _evaluate(name: str, out: Path, redraw: bool) -> Evaluated:
    """Compute the findings on a stored result, and update its file and picture."""
    spec, path = read_experiment(name), out / f"{name}.json"
    result = load_result(path)
    if result is None:
        return Evaluated(name, spec, {}, False, compute_findings(spec, {}))
    cells = restore_cells(result)
    findings = compute_findings(spec, cells)
    _write_document(path, _document(name, spec, result.quick, cells, findings, result.wall_s, result.version))
    if redraw and spec.picture in pictures.STORED:
        pictures.draw(spec, cells, path.with_suffix(".svg"))
    return Evaluated(name, spec, cells, result.quick, findings)


def _document(
    name: str, spec: Experiment, quick: bool, results: Cells, verdicts: list[Finding], wall: float, version: str
) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "name": name,
        "quick": quick,
        "wall_s": round(wall, 1),
        "version": version,
        "cells": [
            {
                "panel": panel,
                "series": series,
                "x": _json_value(x),
                "y": _json_value(y),
                "mean": round(cell.mean, 5),
                "interval_95": _rounded(cell.interval(spec.measure)),
                "measures": [round(value, 5) for value in cell.measures.tolist()],
                "majority_class": None if cell.majority is None else round(cell.majority, 5),
                "printed": spec.printed.get(panel, {}).get(series, {}).get(str(x)),
                "privacy": cell.privacy,
            }
            for (panel, series, x, y), cell in results.items()
        ],
        "findings": [_finding_fields(finding) for finding in verdicts],
    }


def _write_document(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _rounded(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [round(end, 5) for end in interval]


def _finding_fields(finding: Finding) -> dict[str, Any]:
    return {name: getattr(finding, name) for name in ("claim", "of", "panel", "verdict", "seeds", "evidence", "cause")}


def _json_value(value: Any) -> Any:
    return "inf" if value == math.inf else value
