"""From a study's name to its files: NAME.json, NAME.csv, NAME.md, and a picture a panel as SVG and PNG."""

import csv
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sottovoce
from sottovoce.errors import DataError

from sottovoce_lab.experiments.kept_runs import Outcome
from sottovoce_lab.experiments.studies import plots
from sottovoce_lab.experiments.studies.cells import Cells, cells
from sottovoce_lab.experiments.studies.findings import Finding, checked
from sottovoce_lab.experiments.studies.page import markdown
from sottovoce_lab.experiments.studies.runs import Place, asked, conducted
from sottovoce_lab.experiments.studies.specification import StudySpec, study_named
from sottovoce_lab.pages.pyplot import pyplot

SCHEMA = "sottovoce.study/1"


def conduct(name: str, *, quick: bool, folder: Path, out: Path, say: Callable[[str], None]) -> list[Finding]:
    """Conduct a study and write its files; what was done by an earlier call is not done again.

    Args:
        name: of the study.
        quick: whether to compute the coarse one.
        folder: where data sets are.
        out: where the files go; made when it is missing.
        say: is told how it goes.

    Returns:
        the findings.

    Raises:
        UsageError: there is no such study, or what draws it is not installed.
        DataError: none of its data sets is there.
    """
    began = time.monotonic()
    spec = study_named(name)
    extent = spec.quick if quick else spec.full
    pyplot()  # better to miss it now than after hours
    runs = asked(spec, extent, folder, say)
    if not runs:
        raise DataError(f"{name}: no data set of it is in {folder}; name the folder that has them with --data")
    say(f"{len(runs)} runs, about {extent.minutes:g} min on two cores")
    out.mkdir(parents=True, exist_ok=True)
    kept = out / f"{name}.{'quick' if quick else 'full'}.runs.jsonl"
    outcomes = conducted(runs, spec.measure, kept, say)
    found = cells({place: outcomes[place] for place in runs})
    findings = checked(spec, found)
    document = _document(name, spec, quick, found, findings, time.monotonic() - began)
    (out / f"{name}.json").write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    (out / f"{name}.md").write_text(markdown(name, spec, extent, found, findings) + "\n", encoding="utf-8")
    _write_csv(out / f"{name}.csv", spec, outcomes, list(runs))
    for panel in dict.fromkeys(panel for panel, _, _ in found):
        plots.draw(spec, found, panel, out / f"{name}-{panel}")
    return findings


def _write_csv(path: Path, spec: StudySpec, outcomes: dict[Place, Outcome], places: list[Place]) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["panel", "series", spec.axis or "axis", "seed", spec.measure, "epsilon", "status", "wall_s"])
        for place in places:
            outcome = outcomes[place]
            privacy = outcome["privacy"]
            writer.writerow(
                [place.panel, place.series, place.value, place.seed, outcome["measure"], privacy["epsilon"],
                 privacy["status"], outcome["wall_s"]]
            )  # fmt: skip


def _document(
    name: str, spec: StudySpec, quick: bool, found: Cells, findings: list[Finding], wall: float
) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "study": name,
        "title": spec.title,
        "paper": spec.paper,
        "quick": quick,
        "wall_s": round(wall, 1),
        "version": sottovoce.__version__,
        "cells": [
            {
                "panel": panel,
                "series": series,
                "value": "inf" if value == float("inf") else value,
                "seeds": len(cell.measures),
                "mean": cell.mean,
                "half_interval_95": None if math.isnan(cell.half) else cell.half,
                "measures": cell.measures.tolist(),
                "paper": spec.paper_values.get(panel, {}).get(series, {}).get(str(value)),
                "privacy": cell.privacy,
                "curve": [{"cycle": cycle, spec.measure: mean} for cycle, mean in cell.curve],
            }
            for (panel, series, value), cell in found.items()
        ],
        "findings": [
            {"claim": found.claim, "panel": found.panel, "holds": found.holds, "evidence": found.evidence}
            for found in findings
        ],
    }
