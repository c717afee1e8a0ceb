"""Per-example clipping on the grid: one example moves the sum by at most the bound, in exact arithmetic.

A row is scaled to the clip norm and rounded toward zero, which never increases its norm. Its integer norm is then
compared with the bound in exact arithmetic. The result for a row depends only on that row, to the last bit; otherwise,
removing one record could change the other terms of the sum, and the bound would not hold.
"""

import math

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float64]


@np.errstate(over="ignore", invalid="ignore")  # a warning would reveal something about a record
def clip_to_grid(rows: Rows, step: float, clip_squared: int | None) -> Rows:
    """Return rows in grid units, clipped and rounded toward zero.

    Args:
        rows: float64[n, P], one example's vector per row. A row whose squared norm is not finite counts as zero.
        step: the grid step.
        clip_squared: the largest squared norm in squared units, below 2^53; None for no clipping.

    Returns:
        float64[n, P] with integer values; the squared norm of each row is at most `clip_squared`.
    """
    units = np.ascontiguousarray(rows) / step  # contiguous, so that the values of each row are summed in the same order
    squared = np.add.reduce(units * units, axis=1)
    units[~np.isfinite(squared)] = 0.0
    if clip_squared is None:
        return np.trunc(units)
    threshold = math.sqrt(clip_squared)
    norms = np.sqrt(np.where(np.isfinite(squared), squared, 0.0))
    units *= np.minimum(1.0, threshold / np.maximum(norms, threshold))[:, np.newaxis]
    np.trunc(units, out=units)
    while len(too_long := np.flatnonzero(np.add.reduce(units * units, axis=1) > clip_squared)):
        units[too_long] = np.trunc(units[too_long] * (1.0 - 2.0**-20))
    return units
