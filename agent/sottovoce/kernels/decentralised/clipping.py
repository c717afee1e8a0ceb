"""Clipping thresholds that change over time, and gradients divided by their threshold.

The privacy of a noisy gradient depends only on its noise multiplier, the ratio of noise to threshold. A threshold C_t
may therefore follow any public rule, or depend on earlier releases.

A normalised row is never longer than 1, regardless of its gradient and threshold, so a sum of rows has sensitivity 1.
The sum is later multiplied by the threshold.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ConfigError


def decayed_threshold(initial: float, ratio: float, step: int, steps: int) -> float:
    """Return C_t = C_0 r^(t/K), which decreases or increases from C_0 before the first step to C_0 r after the last.

    Args:
        initial: C_0.
        ratio: r, the final threshold divided by the initial one.
        step: t, 0 … K.
        steps: the number of steps K.

    Raises:
        ConfigError: if C_0, r or K is not positive.
    """
    if not (0 < initial < math.inf and 0 < ratio < math.inf and steps > 0):
        raise ConfigError(
            "the clipping threshold, its ratio and the number of steps must be positive: correct the learner's settings"
        )
    return initial * math.pow(ratio, step / steps)


Rows = NDArray[np.float64]
Rule = Literal["decay", "quantile", "automatic"]

BIT_SHARE = 0.1
"""Length b of the bit coordinate under `quantile`, which leaves at most √(1-b²) for the gradient coordinates."""

STABILISER = 0.01
"""Constant added to the norm by which `automatic` divides (Bu, Wang, Zha & Karypis 2023)."""

_GRADIENT_SHARE = math.sqrt(1 - BIT_SHARE**2)


@dataclass(frozen=True, slots=True)
class DenormalisedSum:
    """A sum of normalised rows, converted back to gradient units.

    Attributes:
        gradient: float64[P], the sum of clipped gradients.
        bits: Σ ±1 over rows, with +1 for a gradient no longer than its threshold; None if rows contain no bit.
    """

    gradient: NDArray[np.float64]
    bits: float | None


def row_length(rule: Rule, size: int) -> int:
    """Return the length of a normalised row for a gradient with `size` coordinates."""
    return size + (rule == "quantile")


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # a warning would reveal information about a record
def normalise(gradients: Rows, rule: Rule, threshold: float) -> Rows:
    """Return gradients clipped at C and divided by C. Under `automatic`, divide by their norm plus a constant instead.

    Args:
        gradients: float64[n, P].
        rule: `decay`: g / max(‖g‖, C). `automatic`: g / (‖g‖ + 0.01). `quantile`: √(1-b²) g / max(‖g‖, C), then one
            additional coordinate, which is b if ‖g‖ ≤ C and -b if not.
        threshold: C, positive and finite.

    Returns:
        float64[n, row_length(rule, P)]. Up to rounding and underflow, rows are no longer than 1. Each row depends, to
            the last bit, only on its own gradient. If a gradient is not finite, its row may not be finite either.
    """
    rows = np.ascontiguousarray(gradients)
    norms = np.sqrt(np.add.reduce(rows * rows, axis=1, keepdims=True))
    if rule == "automatic":
        return rows / (norms + STABILISER)
    clipped: Rows = rows / np.maximum(norms, threshold)
    if rule == "decay":
        return clipped
    return np.hstack([clipped * _GRADIENT_SHARE, np.where(norms <= threshold, BIT_SHARE, -BIT_SHARE)])


def undo_normalisation(total: NDArray[np.float64], rule: Rule, threshold: float) -> DenormalisedSum:
    """Convert a sum of normalised rows back to gradient units.

    Args:
        total: float64[row_length(rule, P)].
        rule: the rule by which the rows were normalised.
        threshold: the C used for the rows; under `automatic`, the length to which each row is scaled.
    """
    if rule == "quantile":
        return DenormalisedSum(total[:-1] * (threshold / _GRADIENT_SHARE), float(total[-1]) / BIT_SHARE)
    return DenormalisedSum(total * threshold, None)
