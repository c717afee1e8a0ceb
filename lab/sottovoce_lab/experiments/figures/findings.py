"""Whether a figure shows what it is said to show: computed from the means over runs, never written down."""

import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sottovoce_lab.experiments.figures.specification import Claim, FigureSpec
from sottovoce_lab.experiments.figures.sweep import Cells

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim on one data set.

    Attributes:
        claim: in words.
        data: the data set.
        holds: whether it does.
        evidence: the figures behind it.
    """

    claim: str
    data: str
    holds: bool
    evidence: str


def checked(spec: FigureSpec, cells: Cells) -> list[Finding]:
    """Every claim on every data set that was run."""
    found = []
    for claim in spec.findings:
        for data in sorted({place.data for place in cells}):
            epsilons = _axis(claim.epsilon, {place.epsilon for place in cells})
            ks = _axis(claim.k, {place.k for place in cells if place.k})
            if epsilons:
                found.append(_checked(claim, data, epsilons, ks or [0], cells))
    return found


def surface(cells: Cells, data: str, series: str, epsilons: list[float], ks: list[int]) -> NDArray[np.float64]:
    """Mean accuracies, float64[ε, k]; a series that does not depend on k is the same for all."""
    means = {
        (place.epsilon, place.k): cell.mean
        for place, cell in cells.items()
        if (place.data, place.series) == (data, series)
    }
    return np.array([[means.get((epsilon, k), means.get((epsilon, 0), np.nan)) for k in ks] for epsilon in epsilons])


def _axis(wanted: list[Number], there: set[Number]) -> list[Number]:
    return sorted(there & set(wanted) if wanted else there)


def _checked(claim: Claim, data: str, epsilons: list[float], ks: list[int], cells: Cells) -> Finding:
    mine = surface(cells, data, claim.series, epsilons, ks)
    if claim.check in ("not-below", "above"):
        other, at = (claim.series, [math.inf]) if claim.other == "noiseless" else (claim.other, epsilons)
        lead = mine - surface(cells, data, other, at, ks)
        if claim.check == "above":
            value = float(lead.mean())
            return Finding(claim.claim, data, value > claim.margin, f"ahead by {_points(value)} on average")
        row, column = np.unravel_index(np.argmin(lead), lead.shape)
        where = f"ε = {epsilons[row]:g}" + (f", k = {ks[column]}" if ks[column] else "")
        least = float(lead[row, column])
        return Finding(claim.claim, data, least >= -claim.margin, f"ahead by {_points(least)} where least, at {where}")
    axis, values = ("ε", epsilons) if claim.check.endswith("epsilon") else ("k", ks)
    means = mine.mean(axis=1 if axis == "ε" else 0)
    rise = float(means[-1] - means[0])
    holds = (rise if claim.check.startswith("rises") else -rise) > claim.margin
    evidence = f"{means[0]:.3f} at {axis} = {values[0]:g}, {means[-1]:.3f} at {axis} = {values[-1]:g}"
    return Finding(claim.claim, data, holds, evidence)


def _points(share: float) -> str:
    return f"{100 * share:+.1f} points"
