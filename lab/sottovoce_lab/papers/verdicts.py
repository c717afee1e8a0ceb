"""Compute verdicts on an experiment's claims from paired runs; verdicts are never entered manually.

A claim holds or fails if the 95 % interval over at least five seeds lies on one side of the claimed value; otherwise,
the claim is undecided. A comparison of two series is also undecided if neither does better than the majority class,
regardless of which series is ahead.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sottovoce_lab.papers.cells import MIN_INTERVAL_SEEDS, Cell, Cells, format_measure, format_value, half_interval
from sottovoce_lab.papers.specification import Claim, Experiment

MIN_SEEDS = 5
"""Minimum number of seeds for deciding a claim."""

Verdict = Literal["holds", "fails", "undecided"]
Point = tuple[Any, Any]
_LESS_IS_BETTER = ("loss", "rmse", "mae", "gradient_norm")


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding on a claim in one panel.

    Attributes:
        claim: the claim in words.
        of: who makes the claim, either the paper or this project.
        panel: the panel's label.
        verdict: whether the claim holds.
        seeds: the number of seeds.
        evidence: the numbers behind the verdict.
    """

    claim: str
    of: str
    panel: str
    verdict: Verdict
    seeds: int
    evidence: str


def compute_findings(spec: Experiment, cells: Cells) -> list[Finding]:
    """Return findings on every claim in every panel that was run and, if a band is set, on the printed values."""
    results: list[Finding] = []
    for claim in spec.claims:
        for panel in dict.fromkeys(key[0] for key in cells):
            if claim.panels and panel not in claim.panels:
                continue
            points = [
                (x, y)
                for cell_panel, series, x, y in cells
                if (cell_panel, series) == (panel, claim.series)
                and _is_selected(x, claim.x)
                and _is_selected(y, claim.y)
            ]
            if points and all((panel, rival, *points[0]) in cells for rival in claim.than):
                results.extend(_claim_findings(spec, claim, panel, points, cells))
    return results + _printed_value_findings(spec, cells)


def compute_verdict(numbers: NDArray[np.float64], bound: float) -> Verdict:
    """Return the verdict on whether the mean of numbers, float64[seeds], lies above a bound."""
    half_width = half_interval(numbers)
    if len(numbers) < MIN_SEEDS or math.isnan(half_width):
        return "undecided"
    return (
        "holds"
        if numbers.mean() - half_width > bound
        else "fails"
        if numbers.mean() + half_width < bound
        else "undecided"
    )


def _claim_findings(spec: Experiment, claim: Claim, panel: str, points: list[Point], cells: Cells) -> Iterable[Finding]:
    sign = -1.0 if spec.measure.startswith(_LESS_IS_BETTER) else 1.0
    series_cells = {point: cells[panel, claim.series, *point] for point in points}
    seeds = min(len(cell.measures) for cell in series_cells.values())
    label = spec.panels[panel].label

    def finding(verdict: Verdict, evidence: str) -> Finding:
        return Finding(claim.claim, claim.of, label, verdict, seeds, evidence)

    match claim.check:
        case "at-least":
            lowest = min(points, key=lambda point: series_cells[point].mean)
            verdict = _combine(compute_verdict(series_cells[point].measures, claim.bound) for point in points)
            yield finding(
                verdict, f"{_mean(series_cells[lowest].measures)}{_format_point(lowest)}, claimed {claim.bound:g}"
            )
        case "rises" | "falls":
            axis_index = 0 if claim.along == "x" else 1
            values = list(dict.fromkeys(point[axis_index] for point in points))
            if len(values) < 2:
                return
            ends = [
                _average(series_cells[point] for point in points if point[axis_index] == value)
                for value in (values[0], values[-1])
            ]
            rise = (ends[1] - ends[0]) * (1 if claim.check == "rises" else -1)
            axis = spec.x if axis_index == 0 else spec.y
            ends_text = " and ".join(
                f"{end.mean():.3f} at {axis.label if axis else ''} = {format_value(value)}"
                for end, value in zip(ends, (values[0], values[-1]), strict=True)
            )
            yield finding(compute_verdict(rise, claim.margin), ends_text)
        case "ahead":
            verdicts: list[Verdict] = []
            leads_by = []
            for rival in claim.than:
                lead = sign * (
                    _average(series_cells.values()) - _average(cells[panel, rival, *point] for point in points)
                )
                verdicts.append(
                    "undecided"
                    if _is_at_chance([*series_cells.values(), *(cells[panel, rival, *point] for point in points)])
                    else compute_verdict(lead, claim.margin)
                )
                leads_by.append(f"{_mean(lead, show_sign=True)} against {spec.series[rival].label}")
            yield finding(_combine(verdicts), "; ".join(leads_by))
        case "not-behind":
            pairs = [(point, rival) for point in points for rival in claim.than]
            leads = {
                (point, rival): sign * (series_cells[point].measures - cells[panel, rival, *point].measures)
                for point, rival in pairs
            }
            verdicts = [
                "undecided"
                if _is_at_chance([series_cells[point], cells[panel, rival, *point]])
                else compute_verdict(leads[point, rival], -claim.margin)
                for point, rival in pairs
            ]
            worst = min(leads, key=lambda pair: float(leads[pair].mean()))
            comparison_text = (
                f"{_mean(leads[worst], show_sign=True)} against {spec.series[worst[1]].label}, "
                f"the smallest lead{_format_point(worst[0])}"
            )
            yield finding(_combine(verdicts), comparison_text)


def _printed_value_findings(spec: Experiment, cells: Cells) -> list[Finding]:
    """Return findings on whether our mean is within the band around each printed value."""
    results = []
    for (panel, series, x, y), cell in cells.items():
        printed = spec.printed.get(panel, {}).get(series, {}).get(str(x))
        if spec.band and printed is not None:
            verdict = compute_verdict(spec.band - np.sign(cell.mean - printed) * (cell.measures - printed), 0.0)
            evidence = f"printed {printed:.4g}, ours {_mean(cell.measures)}"
            claim = f"{spec.series[series].label}{_format_point((x, y))} is within {spec.band:g} of the printed value"
            results.append(Finding(claim, "paper", spec.panels[panel].label, verdict, len(cell.measures), evidence))
    return results


def _is_at_chance(compared_cells: list[Cell]) -> bool:
    """Return whether no cell does better than the majority class with 95 % confidence."""
    return all(
        cell.majority is not None and cell.mean - np.nan_to_num(half_interval(cell.measures)) <= cell.majority
        for cell in compared_cells
    )


def _combine(verdicts: Iterable[Verdict]) -> Verdict:
    distinct = set(verdicts)
    return "fails" if "fails" in distinct else "undecided" if "undecided" in distinct else "holds"


def _average(cells: Iterable[Cell]) -> NDArray[np.float64]:
    """Return the means over cells, ordered by seed."""
    means: NDArray[np.float64] = np.mean([cell.measures for cell in cells], axis=0)
    return means


def _is_selected(value: Any, selection: list[Any]) -> bool:
    return not selection or value in selection


def _mean(numbers: NDArray[np.float64], show_sign: bool = False) -> str:
    mean = format_measure(float(numbers.mean()), "+" if show_sign else "")
    return mean if len(numbers) < MIN_INTERVAL_SEEDS else f"{mean} ± {format_measure(half_interval(numbers))}"


def _format_point(point: Point) -> str:
    values = [format_value(value) for value in point if value is not None]
    return f" at {', '.join(values)}" if values else ""
