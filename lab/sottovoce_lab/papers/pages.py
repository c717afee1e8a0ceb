"""Result pages in Markdown: one page per paper with one table, and an index with the counts and the main claims."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sottovoce_lab.papers.again import FILE, Repetition
from sottovoce_lab.papers.cells import MIN_SEEDS, Cells, format_measure
from sottovoce_lab.papers.specification import Experiment, Reading, read_paper
from sottovoce_lab.papers.verdicts import CONFIRMED, REFUTED, Finding, open_finding

_PAGE_HEADER = "*Reference* · [all pages](../index.md)"
_VERDICTS = (*CONFIRMED, *REFUTED, "open")


@dataclass(frozen=True, slots=True)
class Evaluated:
    """An experiment with the findings on its stored result.

    Attributes:
        name: the experiment name, `PAPER/FIGURE`.
        spec: the specification.
        cells: the stored numbers; empty if the experiment has not been run.
        quick: whether the numbers are those of the coarse version.
        findings: the findings on all claims.
    """

    name: str
    spec: Experiment
    cells: Cells
    quick: bool
    findings: list[Finding]

    @property
    def figure(self) -> str:
        """The name of the figure or table in words."""
        return _words(self.name.partition("/")[2])


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a page's table: findings on one claim, or on the printed values of one series.

    Attributes:
        says: what the claims have in common.
        figures: the figures that make the claim.
        findings: the findings, at least one.
    """

    says: str
    figures: list[str]
    findings: list[Finding]

    @property
    def ours(self) -> str:
        """The decisive evidence of a single finding, or the range of the numbers that decide."""
        checked = [finding for finding in self.findings if finding.seeds]
        if len(checked) <= 1:
            return (checked or self.findings)[0].decisive
        sign = "" if checked[0].printed is not None or "claimed" in checked[0].evidence else "+"
        text = _range([finding.ours for finding in checked], sign)
        printed = [finding.printed for finding in checked if finding.printed is not None]
        return f"{text}; printed {_range(printed)}" if printed else text

    @property
    def verdict(self) -> str:
        """The verdict, or the number of each verdict."""
        verdicts = [finding.verdict for finding in self.findings]
        counts = {verdict: verdicts.count(verdict) for verdict in _VERDICTS if verdict in verdicts}
        if len(self.findings) == 1:
            return verdicts[0]
        return ", ".join(f"{verdict} {count}" for verdict, count in counts.items())

    @property
    def seeds(self) -> str:
        """The number of seeds, or its range."""
        numbers = sorted({finding.seeds for finding in self.findings})
        return f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"


def list_findings(paper: str, experiments: list[Evaluated]) -> list[tuple[str, Finding]]:
    """Return each finding with its figure's name in words, including those on figures that are not drawn."""
    findings = [(entry.figure, finding) for entry in experiments for finding in entry.findings]
    return findings + [
        (_words(figure), open_finding(claim, reason="not drawn"))
        for omission in read_paper(paper).omitted
        for figure in omission.figures
        for claim in omission.claims
    ]


def paper_page(name: str, experiments: list[Evaluated]) -> str:
    """Return a paper's page in Markdown."""
    paper, findings = read_paper(name), list_findings(name, experiments)
    has_printed_claims = any(finding.of == "paper" for _, finding in findings)
    header = ["paper says" if has_printed_claims else "claim", "we get", "verdict", "seeds"]
    rows = [
        [f"{_says(row, has_printed_claims)} ({_figures(row.figures)})", row.ours, row.verdict, row.seeds]
        for row in _rows(findings)
    ]
    minutes = [sum(entry.spec.extent(quick).minutes for entry in experiments) for quick in (False, True)]
    parts = [
        f"# {paper.title}",
        f"{_PAGE_HEADER} · [verdicts](index.md) · [claims]({name}/claims.csv) · [numbers]({name}/numbers.csv)",
        f"{paper.reference} {_unwrap(paper.about)}",
        f"`sottovoce reproduce {name}`: {minutes[0] / 60:.1f} hours on two cores; with `--quick`, {minutes[1]:.0f} "
        "minutes.",
        _table([header, ["---"] * 4, *rows]),
    ]
    if causes := _causes(findings):
        parts += ["## Why not", causes]
    parts += ["## Pictures", *_pictures(experiments)]
    parts += [f"{_figures(omission.figures).capitalize()}: {_unwrap(omission.reason)}" for omission in paper.omitted]
    if paper.readings:
        parts += ["## Our reading", "\n".join(f"- {_reading(reading)}" for reading in paper.readings)]
    if paper.errors:
        parts += ["## Errors in the paper", "\n".join(f"- {error}" for error in paper.errors)]
    return "\n\n".join(parts) + "\n"


def index_page(papers: Mapping[str, list[Evaluated]], repetitions: Sequence[Repetition] = ()) -> str:
    """Return the index page in Markdown, from each paper's experiments and the claims that were run again."""
    counted = [["paper", "holds or reproduced", "fails or not reproduced", "open"], ["---"] * 4]
    main = [["claim", "we get", "verdict", "seeds"], ["---"] * 4]
    for name, experiments in papers.items():
        findings = list_findings(name, experiments)
        counts = [
            str(sum(finding.verdict in group for _, finding in findings)) for group in (CONFIRMED, REFUTED, ("open",))
        ]
        counted.append([f"[{read_paper(name).title}]({name}.md)", *counts])
        rows = {row.says: row for row in _rows(findings)}
        main += [
            [f"[{says}]({name}.md)", rows[says].ours, rows[says].verdict, rows[says].seeds]
            for says in read_paper(name).headlines
        ]
    parts = [
        "# Results",
        _PAGE_HEADER,
        "`sottovoce reproduce` runs each figure and table, and checks what the papers claim. A claim of order *holds* "
        "or *fails*, and a printed value is *reproduced* or *not reproduced*, if the 95 % t interval over at least "
        f"{MIN_SEEDS} seeds, paired for comparisons, lies on one side of the claimed value. Otherwise, or if no "
        "compared series beats the majority class, it is *open*. Intervals are in parentheses; claims.csv says what "
        "each open claim needs. `sottovoce reproduce --pages --out docs/results` computes these pages.",
        *([_repeated(repetitions)] if repetitions else []),
        _table(counted),
        "## Main claims",
        _table(main),
    ]
    return "\n\n".join(parts) + "\n"


def _repeated(repetitions: Sequence[Repetition]) -> str:
    """Say how many verdicts stay with new seeds."""
    same = sum(row.again == row.verdict for row in repetitions)
    opened = sum(row.again == "open" for row in repetitions)
    return (
        f"Of {len(repetitions)} decided claims, drawn at random and run again with new seeds ([table]({FILE})), {same} "
        f"verdicts stay, {opened} become open, and {len(repetitions) - same - opened} are reversed."
    )


def _rows(findings: list[tuple[str, Finding]]) -> list[Row]:
    """Return the table's rows, in the order in which the claims first appear."""
    rows: dict[str, Row] = {}
    for figure, finding in findings:
        row = rows.setdefault(finding.group, Row(finding.group, [], []))
        row.findings.append(finding)
        if figure not in row.figures:
            row.figures.append(figure)
    return list(rows.values())


def _says(row: Row, mark_ours: bool) -> str:
    return f"ours: {row.says}" if mark_ours and row.findings[0].of == "ours" else row.says


def _causes(findings: list[tuple[str, Finding]]) -> str:
    """Return the causes of refuted claims as a list, each with the rows that it explains."""
    rows_by_cause: dict[str, list[str]] = {}
    for row in _rows(findings):
        for finding in row.findings:
            if finding.cause and row.says not in rows_by_cause.setdefault(finding.cause, []):
                rows_by_cause[finding.cause].append(row.says)
    return "\n".join(
        f"- {'; '.join(says.removesuffix(', printed') for says in rows)}: {_unwrap(cause)}"
        for cause, rows in rows_by_cause.items()
    )


def _pictures(experiments: list[Evaluated]) -> list[str]:
    drawn = [entry for entry in experiments if entry.cells]
    figures_by_scale: dict[str, list[str]] = {}
    for entry in drawn:
        figures_by_scale.setdefault(entry.spec.extent(entry.quick).scaled.rstrip("."), []).append(entry.figure)
    figures_by_scale.pop("", None)
    scaled = "\n".join(f"- {_figures(figures)}: {scale}" for scale, figures in figures_by_scale.items())
    return [f"![{entry.figure.capitalize()}]({entry.name}.svg)" for entry in drawn] + (
        [f"Scaled down:\n\n{scaled}"] if scaled else []
    )


def _reading(reading: Reading) -> str:
    return " ".join(part for part in (_unwrap(reading.reading), _unwrap(reading.effect)) if part)


def _range(numbers: list[float], sign: str = "") -> str:
    low, high = (format_measure(number, sign) for number in (min(numbers), max(numbers)))
    return low if low == high else f"{low} to {high}"


def _figures(names: list[str]) -> str:
    """Join names of figures, such as "figures 1–4, table 2"."""
    by_kind: dict[str, list[str]] = {}
    for name in names:
        kind, _, number = _words(name).rpartition(" ")
        by_kind.setdefault(kind, []).append(number)
    parts = []
    for kind, numbers in by_kind.items():
        consecutive = len(numbers) > 1 and [*map(str, range(int(numbers[0]), int(numbers[-1]) + 1))] == numbers
        joined = f"{numbers[0]}–{numbers[-1]}" if consecutive else ", ".join(numbers)
        parts.append(f"{kind}{'s' if kind and len(numbers) > 1 else ''} {joined}".strip())
    return ", ".join(parts)


def _words(name: str) -> str:
    return name.replace("-", " ")


def _table(rows: Iterable[list[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _unwrap(text: str) -> str:
    return " ".join(text.split())
