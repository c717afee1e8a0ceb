"""A figure as Markdown: what was run, the numbers, and which findings hold."""

from sottovoce_lab.experiments.figures.findings import Finding
from sottovoce_lab.experiments.figures.specification import Extent, FigureSpec
from sottovoce_lab.experiments.figures.sweep import Cells


def markdown(name: str, spec: FigureSpec, extent: Extent, cells: Cells, findings: list[Finding]) -> str:
    """The whole page."""
    parts = [
        f"# {spec.title}",
        spec.shows,
        f"Mean accuracy on test records ± standard deviation, over {extent.runs} runs.",
    ]
    for data in dict.fromkeys(place.data for place in cells):
        parts += [f"## {data}", _table(spec, extent, cells, data)]
    parts += ["## Findings", _findings(findings), f"![{spec.title}]({name}.svg)"]
    return "\n\n".join(parts)


def _table(spec: FigureSpec, extent: Extent, cells: Cells, data: str) -> str:
    rows = [["series", *(_epsilon(epsilon) for epsilon in extent.epsilon)]]
    found = {(place.series, place.k, place.epsilon): cell for place, cell in cells.items() if place.data == data}
    for series, described in spec.series.items():
        for k in sorted({k for name, k, _ in found if name == series}):
            label = described.label + (f", k = {k}" if k else "")
            numbers = [found[series, k, epsilon] for epsilon in extent.epsilon]
            rows.append([label, *(f"{cell.mean:.3f} ± {cell.std:.3f}" for cell in numbers)])
    rows.insert(1, ["---"] * len(rows[0]))
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _findings(findings: list[Finding]) -> str:
    rows = ["| finding | data | holds | evidence |", "| --- | --- | --- | --- |"]
    rows += [
        f"| {found.claim} | {found.data} | {'yes' if found.holds else '**no**'} | {found.evidence} |"
        for found in findings
    ]
    return "\n".join(rows)


def _epsilon(value: float) -> str:
    return "no noise" if value == float("inf") else f"ε = {value:g}"
