"""From a figure's name to its files: NAME.json, NAME.md, NAME.svg."""

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sottovoce
from sottovoce.errors import DataError

from sottovoce_lab.experiments.figures import boundary, plots
from sottovoce_lab.experiments.figures.findings import Finding, checked
from sottovoce_lab.experiments.figures.specification import FigureSpec, figure_named
from sottovoce_lab.experiments.figures.sweep import Cells, sweep
from sottovoce_lab.experiments.figures.tables import markdown
from sottovoce_lab.pages.pyplot import pyplot

SCHEMA = "sottovoce.figure/1"


def regenerate(name: str, *, quick: bool, folder: Path, out: Path, say: Callable[[str], None]) -> list[Finding]:
    """Compute a figure and write its files.

    Args:
        name: of the figure.
        quick: whether to compute the coarse one.
        folder: where data sets are.
        out: where the files go; made when it is missing.
        say: is told how it goes.

    Returns:
        the findings.

    Raises:
        UsageError: there is no such figure, or what draws it is not installed.
        DataError: none of its data sets is there.
    """
    began = time.monotonic()
    spec = figure_named(name)
    extent = spec.quick if quick else spec.full
    pyplot()  # better to miss it now than after hours
    panels: list[boundary.Panel] = []
    if spec.kind == "boundary":
        cells, panels = boundary.separate(spec, extent)
    else:
        cells = sweep(spec, extent, folder, say)
    if not cells:
        raise DataError(f"{name}: no data set of it is in {folder}; name the folder that has them with --data")
    findings = checked(spec, cells)
    out.mkdir(parents=True, exist_ok=True)
    document = _document(name, spec, quick, cells, findings, time.monotonic() - began)
    (out / f"{name}.json").write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    (out / f"{name}.md").write_text(markdown(name, spec, extent, cells, findings) + "\n", encoding="utf-8")
    if panels:
        boundary.draw(spec, panels, out / f"{name}.svg")
    else:
        plots.draw(spec, extent, cells, out / f"{name}.svg")
    return findings


def _document(
    name: str, spec: FigureSpec, quick: bool, cells: Cells, findings: list[Finding], wall: float
) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "figure": name,
        "title": spec.title,
        "shows": spec.shows,
        "quick": quick,
        "wall_s": round(wall, 1),
        "version": sottovoce.__version__,
        "cells": [
            {
                "data": place.data,
                "series": place.series,
                "epsilon": None if math.isinf(place.epsilon) else place.epsilon,
                "k": place.k or None,
                "runs": len(cell.accuracies),
                "accuracy_mean": cell.mean,
                "accuracy_std": cell.std,
                "accuracies": cell.accuracies,
                "curve": [{"cycle": cycle, "accuracy_mean": accuracy} for cycle, accuracy in cell.curve],
            }
            for place, cell in cells.items()
        ],
        "findings": [
            {"claim": found.claim, "data": found.data, "holds": found.holds, "evidence": found.evidence}
            for found in findings
        ],
    }
