"""Per-example clipping on the grid: after it, one example moves the sum by at most the bound, exactly.

A row is scaled to the threshold, rounded toward zero (which never lengthens it), and its integer norm is compared with
the bound in exact arithmetic. The result for a row depends on that row alone, to the last bit: a sum whose other terms
changed when one record is removed would have another sensitivity.
"""

import math

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float64]


@np.errstate(over="ignore", invalid="ignore")  # a warning would be a message about a record
def clipped_units(rows: Rows, step: float, clip_squared: int | None) -> Rows:
    """Return rows in grid units, clipped and rounded toward zero.

    Args:
        rows: float64[n, P], one example's vector per row. A row whose squared norm is not finite counts as zero.
        step: the grid step.
        clip_squared: the largest squared norm in squared units, below 2^53; None for no clipping.

    Returns:
        float64[n, P] holding integers, each row's squared norm at most `clip_squared`.
    """
    units = np.ascontiguousarray(rows) / step  # contiguous, so that each row's values are added up in the same order
    squared = np.add.reduce(units * units, axis=1)
    units[~np.isfinite(squared)] = 0.0
    if clip_squared is None:
        return np.trunc(units)
    threshold = math.sqrt(clip_squared)
    norms = np.sqrt(np.where(np.isfinite(squared), squared, 0.0))
    units *= np.minimum(1.0, threshold / np.maximum(norms, threshold))[:, np.newaxis]
    np.trunc(units, out=units)
    while len(long := np.flatnonzero(np.add.reduce(units * units, axis=1) > clip_squared)):
        units[long] = np.trunc(units[long] * (1.0 - 2.0**-20))
    return units
