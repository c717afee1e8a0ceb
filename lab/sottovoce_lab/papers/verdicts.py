"""Compute verdicts on an experiment's claims from paired runs; verdicts are never entered manually.

A claim of order *holds* or *fails*, and a printed value is *reproduced* or *not reproduced*, if the 95 % t interval
over at least three seeds lies on one side of the claimed value; otherwise, the verdict is *open*. Intervals of
comparisons are paired. A claim about series of which none does better than the majority class is open, regardless of
their order.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sottovoce_lab.papers.cells import (
    LOGARITHM,
    MIN_SEEDS,
    Cell,
    Cells,
    format_interval,
    format_value,
    half_interval,
    measure_range,
    seeds_to_decide,
)
from sottovoce_lab.papers.specification import Claim, Experiment

Verdict = Literal["holds", "fails", "reproduced", "not reproduced", "open"]
Side = Literal["above", "below", "open"]
Point = tuple[Any, Any]

CONFIRMED: tuple[Verdict, ...] = ("holds", "reproduced")
REFUTED: tuple[Verdict, ...] = ("fails", "not reproduced")
UNKNOWN_CAUSE = "unknown"

_ORDER: dict[Side, Verdict] = {"above": "holds", "below": "fails", "open": "open"}
_MATCH: dict[Side, Verdict] = {"above": "reproduced", "below": "not reproduced", "open": "open"}
_LESS_IS_BETTER = ("loss", f"{LOGARITHM}loss", "rmse", "mae", "gradient_norm")


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding on a claim in one panel.

    Attributes:
        claim: the claim in words.
        of: who makes the claim, either the paper or this project.
        panel: the panel's label.
        verdict: whether the claim holds, or the printed value is reproduced.
        seeds: the number of seeds; 0 if the claim was not checked.
        evidence: the numbers behind the verdict.
        decisive: the part of the evidence that decides.
        cause: why the claim fails or the value is not reproduced; empty for other verdicts.
        needs: what would decide an open claim; empty for other verdicts.
        group: what the claims on a page's row have in common: the claim, or the series of the printed values.
        ours: the number that decides: a lead, a rise, the worst value, or the mean; NaN if there is none.
        printed: the printed value, if the claim is about one.
    """

    claim: str
    of: str
    panel: str
    verdict: Verdict
    seeds: int
    evidence: str
    decisive: str = ""
    cause: str = ""
    needs: str = ""
    group: str = ""
    ours: float = math.nan
    printed: float | None = None


def compute_findings(spec: Experiment, cells: Cells) -> list[Finding]:
    """Return findings on every claim in every panel, and on the printed values of all cells if a band is set."""
    findings: list[Finding] = []
    computed = dict.fromkeys(key[0] for key in cells)
    for claim in spec.claims:
        checked = [
            finding
            for panel in computed
            if not claim.panels or panel in claim.panels
            for finding in [_claim_finding(spec, claim, panel, cells)]
            if finding
        ]
        findings += checked or [open_finding(claim.claim, claim.of)]
    return findings + _printed_value_findings(spec, cells)


def open_finding(claim: str, of: str = "paper", reason: str = "not run") -> Finding:
    """Return the finding on a claim that is not checked."""
    return Finding(claim, of, "", "open", 0, reason, decisive=reason, needs="runs", group=claim)


def compute_side(numbers: NDArray[np.float64], bound: float) -> Side:
    """Return the side of a bound on which the interval of the mean of numbers, float64[seeds], lies."""
    half_width = half_interval(numbers)
    if len(numbers) < MIN_SEEDS or math.isnan(half_width):
        return "open"
    return (
        "above" if numbers.mean() - half_width > bound else "below" if numbers.mean() + half_width < bound else "open"
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Comparison:
    """Numbers, float64[seeds], that are compared with a bound.

    Attributes:
        numbers: paired over seeds, so that larger is better.
        bound: the claimed value.
        at_chance: whether none of the compared series does better than the majority class.
    """

    numbers: NDArray[np.float64]
    bound: float
    at_chance: bool = False

    @property
    def side(self) -> Side:
        """The side of the bound on which the interval lies."""
        return "open" if self.at_chance else compute_side(self.numbers, self.bound)

    @property
    def seeds_needed(self) -> float:
        """How many seeds would decide; infinity if no number would."""
        if self.at_chance:
            return math.inf
        too_few = len(self.numbers) < MIN_SEEDS
        return MIN_SEEDS if too_few else seeds_to_decide(self.numbers, self.bound)


def _describe_needs(comparisons: list[_Comparison]) -> str:
    """Describe what would decide a claim, by the open comparison that is hardest to decide."""
    hardest = max((c for c in comparisons if c.side == "open"), key=lambda comparison: comparison.seeds_needed)
    if hardest.at_chance:
        return "a setting in which a series does better than the majority class"
    if math.isinf(hardest.seeds_needed):
        return "a setting in which the runs differ: their mean is the claimed value"
    return f"{hardest.seeds_needed:.0f} seeds, if the mean and the deviation stay the same"


def _claim_finding(spec: Experiment, claim: Claim, panel: str, cells: Cells) -> Finding | None:
    """Return the finding on a claim in a panel, or None if the panel has no runs for it."""
    points = [
        (x, y)
        for cell_panel, series, x, y in cells
        if (cell_panel, series) == (panel, claim.series) and is_selected(x, claim.x) and is_selected(y, claim.y)
    ]
    if not points or not all((panel, rival, *points[0]) in cells for rival in claim.than):
        return None
    if claim.check in ("rises", "falls") and len({point[_axis(claim)] for point in points}) < 2:
        return None
    series = {point: cells[panel, claim.series, *point] for point in points}
    check = {
        "at-least": _check_bound, "rises": _check_trend, "falls": _check_trend, "ahead": _check_lead,
        "not-behind": _check_smallest_lead,
    }[claim.check]  # fmt: skip
    comparisons, ours, evidence = check(spec, claim, panel, series, cells)
    verdict = _ORDER[_combine(comparison.side for comparison in comparisons)]
    return Finding(
        claim.claim,
        claim.of,
        spec.panels[panel].label,
        verdict,
        min(len(comparison.numbers) for comparison in comparisons),
        "; ".join(evidence),
        decisive=evidence[0],
        cause=(claim.cause or UNKNOWN_CAUSE) if verdict == "fails" else "",
        needs=_describe_needs(comparisons) if verdict == "open" else "",
        group=claim.claim,
        ours=ours,
    )


SeriesCells = dict[Point, Cell]
Check = tuple[list[_Comparison], float, list[str]]
"""The comparisons, the number that decides, and the evidence, of which the first part decides."""


def _check_bound(spec: Experiment, claim: Claim, panel: str, series: SeriesCells, cells: Cells) -> Check:
    sign = _sign(spec)
    worst = min(series, key=lambda point: _lower_end(sign * series[point].measures))
    comparisons = [_Comparison(sign * cell.measures, sign * claim.bound) for cell in series.values()]
    shown = format_interval(series[worst].mean, series[worst].interval(spec.measure))
    return comparisons, series[worst].mean, [f"{shown}{_format_point(worst)}, claimed {claim.bound:g}"]


def _check_trend(spec: Experiment, claim: Claim, panel: str, series: SeriesCells, cells: Cells) -> Check:
    axis = spec.y if _axis(claim) else spec.x
    values = list(dict.fromkeys(point[_axis(claim)] for point in series))
    ends = [
        [cell for point, cell in series.items() if point[_axis(claim)] == value] for value in (values[0], values[-1])
    ]
    first, last = (_average(cells_at_end) for cells_at_end in ends)
    rise = _subtract(last, first) * (1 if claim.check == "rises" else -1)
    comparison = _Comparison(rise, claim.margin, _is_at_chance(spec, [*ends[0], *ends[1]]))
    text = " and ".join(
        f"{format_interval(end.mean(), None)} at {axis.label if axis else ''} = {format_value(value)}"
        for end, value in zip((first, last), (values[0], values[-1]), strict=True)
    )
    return [comparison], float(_subtract(last, first).mean()), [text]


def _check_lead(spec: Experiment, claim: Claim, panel: str, series: SeriesCells, cells: Cells) -> Check:
    comparisons: list[_Comparison] = []
    leads: dict[str, NDArray[np.float64]] = {}
    for rival in claim.than:
        rivals = [cells[panel, rival, *point] for point in series]
        leads[rival] = _sign(spec) * _subtract(_average(series.values()), _average(rivals))
        at_chance = _is_at_chance(spec, [*series.values(), *rivals])
        comparisons.append(_Comparison(leads[rival], claim.margin, at_chance))
    ordered = sorted(claim.than, key=lambda rival: _lower_end(leads[rival]))
    evidence = [f"{_lead(spec, leads[rival])} against {spec.series[rival].label}" for rival in ordered]
    return comparisons, float(leads[ordered[0]].mean()), evidence


def _check_smallest_lead(spec: Experiment, claim: Claim, panel: str, series: SeriesCells, cells: Cells) -> Check:
    pairs = {(point, rival): cells[panel, rival, *point] for point in series for rival in claim.than}
    leads = {
        (point, rival): _sign(spec) * _subtract(series[point].measures, cell.measures)
        for (point, rival), cell in pairs.items()
    }
    comparisons = [
        _Comparison(leads[pair], -claim.margin, _is_at_chance(spec, [series[pair[0]], cell]))
        for pair, cell in pairs.items()
    ]
    worst = min(leads, key=lambda pair: _lower_end(leads[pair]))
    text = f"{_lead(spec, leads[worst])} against {spec.series[worst[1]].label}{_format_point(worst[0])}"
    return comparisons, float(leads[worst].mean()), [text]


def _printed_value_findings(spec: Experiment, cells: Cells) -> list[Finding]:
    """Return findings on whether our mean is within the band around each printed value."""
    findings = []
    for (panel, series, x, y), cell in cells.items():
        printed = spec.printed.get(panel, {}).get(series, {}).get(str(x))
        if not spec.band or printed is None:
            continue
        label = spec.series[series].label
        comparison = _Comparison(spec.band - np.sign(cell.mean - printed) * (cell.measures - printed), 0.0)
        verdict = _MATCH[comparison.side]
        cause = next(
            (c.cause for c in spec.causes if series in c.series and str(x) in (c.x or [str(x)])), UNKNOWN_CAUSE
        )
        findings.append(
            Finding(
                f"{label}{_format_point((x, y))} is within {spec.band:g} of the printed value",
                "paper",
                spec.panels[panel].label,
                verdict,
                len(cell.measures),
                evidence := f"printed {printed:.4g}, ours {format_interval(cell.mean, cell.interval(spec.measure))}",
                decisive=evidence,
                cause=cause if verdict == "not reproduced" else "",
                needs=_describe_needs([comparison]) if verdict == "open" else "",
                group=f"{spec.printed_row or label}, printed",
                ours=cell.mean,
                printed=printed,
            )
        )
    return findings


def _is_at_chance(spec: Experiment, compared_cells: list[Cell]) -> bool:
    """Return whether the measure is the accuracy, and no cell exceeds the majority class with 95 % confidence."""
    return spec.measure.startswith("accuracy") and all(
        cell.majority is not None and _lower_end(cell.measures) <= cell.majority for cell in compared_cells
    )


def _lower_end(numbers: NDArray[np.float64]) -> float:
    """Return the lower end of the interval of the mean, which decides whether all are above a bound."""
    return float(numbers.mean() - np.nan_to_num(half_interval(numbers)))


def _combine(sides: Iterable[Side]) -> Side:
    distinct = set(sides)
    return "below" if "below" in distinct else "open" if "open" in distinct else "above"


def _average(cells: Iterable[Cell]) -> NDArray[np.float64]:
    """Return the means over cells, ordered by seed, of the seeds that all cells have."""
    return np.array([np.mean(measures) for measures in zip(*(cell.measures for cell in cells), strict=False)])


def _subtract(numbers: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the paired differences of the seeds that both have, the first of each."""
    seeds = min(len(numbers), len(others))
    differences: NDArray[np.float64] = numbers[:seeds] - others[:seeds]
    return differences


def _sign(spec: Experiment) -> float:
    return -1.0 if spec.measure.startswith(_LESS_IS_BETTER) else 1.0


def _axis(claim: Claim) -> int:
    return 0 if claim.along == "x" else 1


def is_selected(value: Any, selection: list[Any]) -> bool:
    """Return whether a claim about these axis values, or about all if there are none, is about a value."""
    return not selection or value in selection


def _lead(spec: Experiment, lead: NDArray[np.float64]) -> str:
    """Format a lead with its interval, within the range of a difference of two measures."""
    low, high = measure_range(spec.measure)
    mean, half_width = float(lead.mean()), half_interval(lead)
    interval = (max(low - high, mean - half_width), min(high - low, mean + half_width))
    return format_interval(mean, interval if len(lead) >= MIN_SEEDS else None, "+")


def _format_point(point: Point) -> str:
    values = [format_value(value) for value in point if value is not None]
    return f" at {', '.join(values)}" if values else ""
