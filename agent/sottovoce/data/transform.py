"""The public transform of features: a function of one record and of public declarations, of nothing else.

This independence is a privacy requirement. The privacy statement counts what one record can change; were a mean, a
scale or even a rounding taken from the rest of the batch, one record would change how the others are seen, and the
sensitivity the vault charges for would be wrong. So no training-set statistic is used, and every row comes out
bit-identical whether it is transformed alone or among others: arrays are first made C-contiguous, aligned float64,
so that each sum runs along one row of adjacent numbers, in an order that depends on the number of columns only.
"""

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sottovoce.data.bounds import Bounds
from sottovoce.errors import DataError

BIAS = 0.3
"""The constant last column of `centred_unit`: a record has norm at most sqrt(1 + BIAS**2)."""

TransformName = Literal["centred-unit", "none"]


def centred_unit(features: NDArray[np.float64], bounds: Bounds | None) -> NDArray[np.float64]:
    """Scale, centre and normalise each record by itself, and append a bias.

    With bounds, a feature is clamped to its declared range and scaled to [0, 1] (0 when the range has no width);
    without, it becomes sign(x)·log(1 + |x|). Then the record's own mean is subtracted, the record is divided by its
    L2 norm (a record of equal features becomes 0), and the constant `BIAS` is appended.

    Each row of the result is bit-identical whatever other rows are present: see the module's docstring.

    Args:
        features: float64[n,d], finite; n may be 0.
        bounds: the declared range, float64[d] twice, or None.

    Returns:
        float64[n,d+1]; the first d columns of a row have norm 1 (up to rounding) or 0.

    Raises:
        DataError: the bounds are not declared for d features.
    """
    rows = _private_copy(features)
    if bounds is None:
        rows = np.sign(rows) * np.log1p(np.abs(rows))
    else:
        low, high = _matching(bounds, rows.shape[1])
        np.clip(rows, low, high, out=rows)
        rows -= low
        span = high - low
        rows = np.divide(rows, span, out=np.zeros_like(rows), where=span > 0)
    rows -= rows[:, :1].copy()  # makes equal features exactly 0, where the mean alone would leave rounding errors
    rows -= rows.mean(axis=1, keepdims=True)
    _divide_rows(rows, np.abs(rows).max(axis=1, keepdims=True))  # else the squares of tiny numbers underflow
    _divide_rows(rows, np.sqrt((rows * rows).sum(axis=1, keepdims=True)))
    return np.hstack([rows, np.full((len(rows), 1), BIAS)])


def clamped(features: NDArray[np.float64], bounds: Bounds | None) -> NDArray[np.float64]:
    """Clamp each feature to its declared range and change nothing else: the transform `none`.

    Args:
        features: float64[n,d], finite; n may be 0.
        bounds: the declared range, float64[d] twice, or None to leave every value as it is.

    Returns:
        float64[n,d], a new array.

    Raises:
        DataError: the bounds are not declared for d features.
    """
    rows = _private_copy(features)
    if bounds is not None:
        np.clip(rows, *_matching(bounds, rows.shape[1]), out=rows)
    return rows


_TRANSFORMS: dict[TransformName, Callable[[NDArray[np.float64], Bounds | None], NDArray[np.float64]]] = {
    "centred-unit": centred_unit,
    "none": clamped,
}


def apply(name: TransformName, features: NDArray[np.float64], bounds: Bounds | None) -> NDArray[np.float64]:
    """Apply the declared transform.

    Args:
        name: `centred-unit` or `none`.
        features: float64[n,d], finite.
        bounds: the declared range, float64[d] twice, or None.

    Returns:
        float64[n,width(name, d)].

    Raises:
        DataError: the bounds are not declared for d features.
    """
    return _TRANSFORMS[name](features, bounds)


def width(name: TransformName, d: int) -> int:
    """Return the number of columns `apply` makes of d features."""
    return d + 1 if name == "centred-unit" else d


def _private_copy(features: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.array(features, dtype=np.float64, order="C", copy=True)  # numpy allocates aligned


def _matching(bounds: Bounds, columns: int) -> Bounds:
    if any(side.shape != (columns,) for side in bounds):
        raise DataError(f"The bounds are not declared for {columns} features. Declare a low and a high value for each.")
    return bounds


def _divide_rows(rows: NDArray[np.float64], divisors: NDArray[np.float64]) -> None:
    np.divide(rows, divisors, out=rows, where=divisors > 0)
