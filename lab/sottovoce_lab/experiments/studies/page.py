"""A study as one page of Markdown: the paper's numbers beside ours, what each ε is worth, and which findings hold."""

import math
from typing import Any

from sottovoce_lab.experiments.studies.cells import FEWEST, Cell, Cells
from sottovoce_lab.experiments.studies.findings import Finding
from sottovoce_lab.experiments.studies.specification import Extent, StudySpec


def markdown(name: str, spec: StudySpec, extent: Extent, cells: Cells, findings: list[Finding]) -> str:
    """The whole page."""
    over = "1 seed" if extent.seeds == 1 else f"{extent.seeds} paired seeds"
    over += ", ± 95 % confidence of the mean" if extent.seeds >= FEWEST else ""
    parts = [
        f"# {spec.title}",
        f"{spec.paper}. {spec.shows.strip()}",
        f"`{spec.measure}` over {over}. In brackets what the paper prints, where it prints a number.",
    ]
    for panel in dict.fromkeys(panel for panel, _, _ in cells):
        parts += [f"## {spec.panels[panel].label}", _table(spec, cells, panel), f"![{panel}]({name}-{panel}.svg)"]
    parts += ["## What each ε is worth", _guarantees(spec, cells)]
    parts += ["## What explains a difference", spec.differs.strip()]
    if findings:
        parts += ["## Findings", _findings(findings)]
    return "\n\n".join(parts)


def _table(spec: StudySpec, cells: Cells, panel: str) -> str:
    mine = {(series, value): cell for (at, series, value), cell in cells.items() if at == panel}
    values = list(dict.fromkeys(value for _, value in mine))
    header = ["series", *(_heading(spec, value) for value in values)]
    rows = [header, ["---"] * len(header)]
    for series in dict.fromkeys(series for series, _ in mine):
        printed = spec.paper_values.get(panel, {}).get(series, {})
        entries = [_entry(mine.get((series, value)), printed.get(str(value))) for value in values]
        rows.append([spec.series[series].label, *entries])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _entry(cell: Cell | None, printed: float | None) -> str:
    if cell is None:
        return ""
    words = f"{cell.mean:.3f}" if math.isnan(cell.half) else f"{cell.mean:.3f} ± {cell.half:.3f}"
    return words if printed is None else f"{words} ({printed:g})"


def _guarantees(spec: StudySpec, cells: Cells) -> str:
    rows = ["| series | ε as stated | δ | unit, relation | status | why |", "| --- | --- | --- | --- | --- | --- |"]
    told: dict[tuple[str, ...], list[str]] = {}
    for (_, series, _), cell in cells.items():
        privacy = cell.privacy
        stated = "none" if privacy["epsilon"] is None else f"{privacy['epsilon']:g}"
        delta = "" if privacy["delta"] is None else f"{privacy['delta']:.3g}"
        unit = f"{privacy['unit']}, {privacy['neighbouring']}"
        where = (spec.series[series].label, delta, unit, privacy["status"], privacy["reason"])
        epsilons = told.setdefault(where, [])
        if stated not in epsilons:
            epsilons.append(stated)
    rows += [
        f"| {label} | {', '.join(epsilons)} | {delta} | {unit} | {status} | {reason} |"
        for (label, delta, unit, status, reason), epsilons in told.items()
    ]
    return "\n".join(rows)


def _findings(findings: list[Finding]) -> str:
    rows = ["| finding | where | holds | evidence |", "| --- | --- | --- | --- |"]
    rows += [
        f"| {found.claim} | {found.panel} | {'yes' if found.holds else '**no**'} | {found.evidence} |"
        for found in findings
    ]
    return "\n".join(rows)


def _heading(spec: StudySpec, value: Any) -> str:
    if value is None:
        return spec.measure
    return f"{spec.axis_label} = {value:g}" if isinstance(value, int | float) else f"{spec.axis_label} {value}"
