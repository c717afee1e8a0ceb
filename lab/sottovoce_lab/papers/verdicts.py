"""Compute verdicts on an experiment's claims from paired runs; verdicts are never entered manually.

A claim holds or fails if the 95 % interval over at least five seeds lies on one side of the claimed value, and is
undecided if it does not. A comparison of two series is also undecided if neither does better than the majority class,
whichever series is ahead.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sottovoce_lab.papers.cells import FEWEST, Cell, Cells, format_measure, half_interval
from sottovoce_lab.papers.specification import Claim, Experiment

FEWEST_SEEDS = 5
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


def findings(spec: Experiment, cells: Cells) -> list[Finding]:
    """Return findings on every claim in every panel that was run and, if a band is set, on the printed values."""
    found: list[Finding] = []
    for claim in spec.claims:
        for panel in dict.fromkeys(where[0] for where in cells):
            if claim.panels and panel not in claim.panels:
                continue
            points = [
                (x, y)
                for at, series, x, y in cells
                if (at, series) == (panel, claim.series) and _is_wanted(x, claim.x) and _is_wanted(y, claim.y)
            ]
            if points and all((panel, other, *points[0]) in cells for other in claim.than):
                found.extend(_claim_findings(spec, claim, panel, points, cells))
    return found + _printed(spec, cells)


def verdict_of(numbers: NDArray[np.float64], bound: float) -> Verdict:
    """Return the verdict on whether the mean of numbers, float64[seeds], lies above a bound."""
    half = half_interval(numbers)
    if len(numbers) < FEWEST_SEEDS or math.isnan(half):
        return "undecided"
    return "holds" if numbers.mean() - half > bound else "fails" if numbers.mean() + half < bound else "undecided"


def _claim_findings(spec: Experiment, claim: Claim, panel: str, points: list[Point], cells: Cells) -> Iterable[Finding]:
    sign = -1.0 if spec.measure.startswith(_LESS_IS_BETTER) else 1.0
    own = {point: cells[panel, claim.series, *point] for point in points}
    seeds = min(len(cell.measures) for cell in own.values())
    label = spec.panels[panel].label

    def finding(verdict: Verdict, evidence: str) -> Finding:
        return Finding(claim.claim, claim.of, label, verdict, seeds, evidence)

    match claim.check:
        case "at-least":
            least = min(points, key=lambda point: own[point].mean)
            bound = _combine(verdict_of(own[point].measures, claim.bound) for point in points)
            yield finding(bound, f"{_mean(own[least].measures)}{_at(least)}, claimed {claim.bound:g}")
        case "rises" | "falls":
            place = 0 if claim.along == "x" else 1
            values = list(dict.fromkeys(point[place] for point in points))
            if len(values) < 2:
                return
            ends = [
                _average(own[point] for point in points if point[place] == value) for value in (values[0], values[-1])
            ]
            rise = (ends[1] - ends[0]) * (1 if claim.check == "rises" else -1)
            axis = spec.x if place == 0 else spec.y
            words = " and ".join(
                f"{end.mean():.3f} at {axis.label if axis else ''} = {_number(value)}"
                for end, value in zip(ends, (values[0], values[-1]), strict=True)
            )
            yield finding(verdict_of(rise, claim.margin), words)
        case "ahead":
            verdicts: list[Verdict] = []
            leads_by = []
            for other in claim.than:
                lead = sign * (_average(own.values()) - _average(cells[panel, other, *point] for point in points))
                verdicts.append(
                    "undecided"
                    if _is_at_chance([*own.values(), *(cells[panel, other, *point] for point in points)])
                    else verdict_of(lead, claim.margin)
                )
                leads_by.append(f"{_mean(lead, signed=True)} against {spec.series[other].label}")
            yield finding(_combine(verdicts), "; ".join(leads_by))
        case "not-behind":
            pairs = [(point, other) for point in points for other in claim.than]
            leads = {
                (point, other): sign * (own[point].measures - cells[panel, other, *point].measures)
                for point, other in pairs
            }
            verdicts = [
                "undecided"
                if _is_at_chance([own[point], cells[panel, other, *point]])
                else verdict_of(leads[point, other], -claim.margin)
                for point, other in pairs
            ]
            worst = min(leads, key=lambda pair: float(leads[pair].mean()))
            words_of = (
                f"{_mean(leads[worst], signed=True)} against {spec.series[worst[1]].label}, where least{_at(worst[0])}"
            )
            yield finding(_combine(verdicts), words_of)


def _printed(spec: Experiment, cells: Cells) -> list[Finding]:
    """Return findings on whether our mean is within the band around each printed value."""
    found = []
    for (panel, series, x, y), cell in cells.items():
        printed = spec.printed.get(panel, {}).get(series, {}).get(str(x))
        if spec.band and printed is not None:
            verdict = verdict_of(spec.band - np.sign(cell.mean - printed) * (cell.measures - printed), 0.0)
            words = f"printed {printed:.4g}, ours {_mean(cell.measures)}"
            claim = f"{spec.series[series].label}{_at((x, y))} is within {spec.band:g} of the printed value"
            found.append(Finding(claim, "paper", spec.panels[panel].label, verdict, len(cell.measures), words))
    return found


def _is_at_chance(compared: list[Cell]) -> bool:
    """Return whether no cell does better than the majority class with 95 % confidence."""
    return all(
        cell.majority is not None and cell.mean - np.nan_to_num(half_interval(cell.measures)) <= cell.majority
        for cell in compared
    )


def _combine(verdicts: Iterable[Verdict]) -> Verdict:
    there = set(verdicts)
    return "fails" if "fails" in there else "undecided" if "undecided" in there else "holds"


def _average(there: Iterable[Cell]) -> NDArray[np.float64]:
    """Return the means over cells, ordered by seed."""
    averaged: NDArray[np.float64] = np.mean([cell.measures for cell in there], axis=0)
    return averaged


def _is_wanted(value: Any, wanted: list[Any]) -> bool:
    return not wanted or value in wanted


def _mean(numbers: NDArray[np.float64], signed: bool = False) -> str:
    mean = format_measure(float(numbers.mean()), "+" if signed else "")
    return mean if len(numbers) < FEWEST else f"{mean} ± {format_measure(half_interval(numbers))}"


def _at(point: Point) -> str:
    there = [_number(value) for value in point if value is not None]
    return f" at {', '.join(there)}" if there else ""


def _number(value: Any) -> str:
    return "∞" if value == math.inf else f"{value:g}" if isinstance(value, int | float) else str(value)
