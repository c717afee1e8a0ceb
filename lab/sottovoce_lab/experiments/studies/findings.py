"""Whether a study shows what it is said to show: computed from the runs, never written down."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sottovoce_lab.experiments.studies.cells import Cells, half_interval
from sottovoce_lab.experiments.studies.specification import Claim, StudySpec


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim in one panel.

    Attributes:
        claim: in words.
        panel: its label.
        holds: whether it does.
        evidence: the figures behind it.
    """

    claim: str
    panel: str
    holds: bool
    evidence: str


def checked(spec: StudySpec, cells: Cells) -> list[Finding]:
    """Every claim in every panel that was run; and, where the paper's numbers are to be met, whether they are."""
    found = []
    for claim in spec.findings:
        for panel in dict.fromkeys(panel for panel, _, _ in cells):
            if claim.panels and panel not in claim.panels:
                continue
            there = [value for at, series, value in cells if (at, series) == (panel, claim.series)]
            values = [value for value in there if not claim.values or value in claim.values]
            if claim.check == "rises" and len(values) < 2:
                continue  # one value rises nowhere
            if values and all((panel, other, values[0]) in cells for other in claim.than):
                found.append(_checked(claim, panel, spec.panels[panel].label, values, cells))
    return found + _met(spec, cells)


def _checked(claim: Claim, panel: str, label: str, values: list[Any], cells: Cells) -> Finding:
    own = {value: cells[panel, claim.series, value] for value in values}
    match claim.check:
        case "at-least":
            least = min(values, key=lambda value: own[value].mean)
            mean = own[least].mean
            return Finding(
                claim.claim, label, mean >= claim.bound, f"{mean:.3f}{_at(least)}; asked for {claim.bound:g}"
            )
        case "rises":
            first, last = own[values[0]].mean, own[values[-1]].mean
            words = f"{first:.3f}{_at(values[0])}, {last:.3f}{_at(values[-1])}"
            return Finding(claim.claim, label, last - first > claim.margin, words)
        case "not-below":
            leads = {
                (value, other): own[value].mean - cells[panel, other, value].mean
                for value in values
                for other in claim.than
            }
            worst = min(leads, key=lambda place: leads[place])
            words = f"{leads[worst]:+.3f} against {worst[1]} where least{_at(worst[0])}"
            return Finding(claim.claim, label, leads[worst] >= -claim.margin, words)
        case "above":
            holds, leads_by = True, []
            for other in claim.than:
                paired = [own[value].measures - cells[panel, other, value].measures for value in values]
                lead = np.mean(paired, axis=0)
                half = half_interval(lead)
                holds &= float(lead.mean()) - (0.0 if math.isnan(half) else half) > claim.margin
                words = "" if math.isnan(half) else f" ± {half:.3f}"
                leads_by.append(f"{lead.mean():+.3f}{words} against {other}")
            return Finding(claim.claim, label, holds, "; ".join(leads_by))


def _met(spec: StudySpec, cells: Cells) -> list[Finding]:
    """The paper's own values, where a band is given for them."""
    found = []
    for panel, rows in spec.paper_values.items():
        for series, numbers in rows.items():
            for (at, name, value), cell in cells.items():
                printed = numbers.get(str(value))
                if spec.band and (at, name) == (panel, series) and printed is not None:
                    words = f"the paper {printed:.3f}, ours {cell.mean:.3f}"
                    claim = f"{spec.series[series].label}{_at(value)} is within {spec.band:g} of the paper's value"
                    found.append(Finding(claim, spec.panels[panel].label, abs(cell.mean - printed) <= spec.band, words))
    return found


def _at(value: Any) -> str:
    return "" if value is None else f" at {value:g}" if isinstance(value, int | float) else f" at {value}"
