"""Result pages in Markdown, with one page per paper and an index of all claims and their verdicts."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from sottovoce_lab.papers.cells import MIN_INTERVAL_SEEDS, format_measure, format_value
from sottovoce_lab.papers.result import Result, ResultCell, ResultFinding
from sottovoce_lab.papers.specification import Experiment, read_experiment, read_paper
from sottovoce_lab.papers.verdicts import MIN_SEEDS

_PAGE_HEADER = "*Reference* · [all pages](../index.md)"


def paper_page(name: str, results: list[Result]) -> str:
    """Return a paper's page in Markdown.

    Args:
        name: the paper's name.
        results: the results of the paper's experiments, at least one.
    """
    paper = read_paper(name)
    parts = [f"# {paper.title}", _PAGE_HEADER, paper.reference, _unwrap(paper.about)]
    parts.append(
        "Every number is a mean over the seeds that its table names, ± its 95% confidence interval if there "
        f"are at least {MIN_INTERVAL_SEEDS}; ◇ is the printed value. A claim holds or fails if the paired 95% interval "
        f"over at least {MIN_SEEDS} seeds decides it; otherwise, or if neither side does better than the majority "
        "class, it is undecided. The index has [all claims](index.md)."
    )
    for result in results:
        parts += _experiment(result)
    if paper.readings:
        parts += ["## Our reading", "What the paper leaves open, and how it is read here.", _readings(name)]
    if paper.errors:
        parts += ["## Errors in the paper", "\n".join(f"- {error}" for error in paper.errors)]
    return "\n\n".join(parts) + "\n"


def index_page(results: Mapping[str, list[Result]]) -> str:
    """Return the index page, with all claims, in Markdown."""
    parts = [
        "# Results",
        _PAGE_HEADER,
        "Every claim that an experiment checks, with its verdict, the numbers behind it and the number of seeds. "
        f"A verdict of holds or fails requires {MIN_SEEDS} seeds and a decisive paired 95% interval. "
        "`sottovoce reproduce` regenerates this page.",
        _counts(results),
    ]
    for name, paper_results in results.items():
        parts += [f"## [{read_paper(name).title}]({name}.md)"]
        rows = [["figure", "claim", "where", "verdict", "seeds", "numbers"], ["---"] * 6]
        for result in paper_results:
            link = f"[{_figure(result.name)}]({name}.md#{_anchor(result)})"
            rows += [
                [link, finding.claim, finding.panel, _verdict(finding), str(finding.seeds), finding.evidence]
                for finding in result.findings
            ]
        parts.append(_table(rows))
    return "\n\n".join(parts) + "\n"


def _experiment(result: Result) -> list[str]:
    spec = read_experiment(result.name)
    extent = spec.extent(result.quick)
    mode = " --quick" if result.quick else ""
    parts = [f"## {spec.title}", _unwrap(spec.shows)]
    if extent.scaled:
        parts.append(f"Scaled down: {extent.scaled}")
    parts.append(f"![{spec.title}]({result.name}.svg)")
    for panel in dict.fromkeys(cell.panel for cell in result.cells):
        cells = [cell for cell in result.cells if cell.panel == panel]
        parts += [f"### {_figure(result.name)}: {spec.panels[panel].label}", _numbers(spec, cells)]
    parts.append(_guarantees(spec, result.cells))
    if spec.differs:
        parts.append(_unwrap(spec.differs))
    if result.findings:
        parts.append(_findings(result.findings))
    parts.append(
        f"`sottovoce reproduce {result.name}{mode}`, version {result.version}, "
        f"{max(1, round(result.wall_s / 60))} minutes on two cores."
    )
    return parts


def _numbers(spec: Experiment, cells: list[ResultCell]) -> str:
    """Return a panel's table, with one row for each series and y value."""
    xs = list(dict.fromkeys(_key(cell.x) for cell in cells))
    seeds = sorted({len(cell.measures) for cell in cells})
    n = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    header = [
        "n = 1 seed" if n == "1" else f"n = {n} seeds",
        *(f"{spec.x.label} = {format_value(x)}" if spec.x else spec.measure for x in xs),
    ]
    rows = [header, ["---"] * len(header)]
    cells_by_position = {(cell.series, _key(cell.y), _key(cell.x)): cell for cell in cells}
    for series, y in dict.fromkeys((cell.series, _key(cell.y)) for cell in cells):
        label = spec.series[series].label + (f", {spec.y.label} = {format_value(y)}" if spec.y else "")
        rows.append([label, *(_entry(cells_by_position.get((series, y, x))) for x in xs)])
    majorities = {cell.majority_class for cell in cells}
    if majorities != {None} and spec.measure == "accuracy_mean":
        by_x = [[c.majority_class for c in cells if _key(c.x) == x and c.majority_class is not None] for x in xs]
        rows.append(
            ["majority class", *(format_measure(sum(shares) / len(shares)) if shares else "" for shares in by_x)]
        )
    return _table(rows)


def _entry(cell: ResultCell | None) -> str:
    if cell is None:
        return ""
    text = format_measure(cell.mean)
    text += "" if cell.half_interval_95 is None else f" ± {format_measure(cell.half_interval_95)}"
    return text if cell.printed is None else f"{text} ◇ {cell.printed:g}"


def _guarantees(spec: Experiment, cells: list[ResultCell]) -> str:
    """Return a table with each series' privacy guarantee."""
    rows = [["series", "ε as stated", "δ", "unit, relation", "status", "why"], ["---"] * 6]
    epsilons_by_guarantee: dict[tuple[str, ...], list[str]] = {}
    for cell in cells:
        privacy = cell.privacy
        epsilon = "none" if privacy["epsilon"] is None else f"{privacy['epsilon']:.4g}"
        delta = "" if privacy["delta"] is None else f"{privacy['delta']:.3g}"
        unit = f"{privacy['unit']}, {privacy['neighbouring']}"
        guarantee = (spec.series[cell.series].label, delta, unit, privacy["status"], privacy["reason"])
        epsilons = epsilons_by_guarantee.setdefault(guarantee, [])
        if epsilon not in epsilons:
            epsilons.append(epsilon)
    rows += [
        [label, ", ".join(epsilons), delta, unit, status, reason]
        for (label, delta, unit, status, reason), epsilons in epsilons_by_guarantee.items()
    ]
    return _table(rows)


def _findings(findings: list[ResultFinding]) -> str:
    rows = [["claim", "of", "where", "verdict", "seeds", "numbers"], ["---"] * 6]
    rows += [
        [finding.claim, finding.of, finding.panel, _verdict(finding), str(finding.seeds), finding.evidence]
        for finding in findings
    ]
    return _table(rows)


def _readings(name: str) -> str:
    rows = [["reading", "effect"], ["---"] * 2]
    rows += [[_unwrap(reading.reading), _unwrap(reading.effect)] for reading in read_paper(name).readings]
    return _table(rows)


def _counts(results: Mapping[str, list[Result]]) -> str:
    rows = [["paper", "hold", "fail", "undecided"], ["---"] * 4]
    for name, paper_results in results.items():
        verdicts = [finding.verdict for result in paper_results for finding in result.findings]
        counts = [str(verdicts.count(verdict)) for verdict in ("holds", "fails", "undecided")]
        rows.append([f"[{read_paper(name).title}]({name}.md)", *counts])
    return _table(rows)


def _verdict(finding: ResultFinding) -> str:
    return f"**{finding.verdict}**" if finding.verdict == "fails" else finding.verdict


def _table(rows: Iterable[list[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _unwrap(text: str) -> str:
    return " ".join(text.split())


def _figure(name: str) -> str:
    return name.partition("/")[2].replace("-", " ")


def _anchor(result: Result) -> str:
    letters = "".join(
        letter for letter in read_experiment(result.name).title.lower() if letter.isalnum() or letter in " -_"
    )
    return letters.replace(" ", "-")


def _key(value: Any) -> Any:
    return math.inf if value == "inf" else value
