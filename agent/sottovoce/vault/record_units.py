"""Scaling of a record to norm 1, with rounding that depends only on the record."""

from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

Row = NDArray[np.float64]


def l1_units(row: Row, unit: int) -> list[int]:
    """Return unit · x / ‖x‖₁, rounded toward zero: integers whose absolute values add up to at most `unit`.

    Args:
        row: float64[d]; a row that is not finite counts as zero.
        unit: the norm 1 in grid units.
    """
    integers = _integers(row)
    length = sum(map(abs, integers)) or 1
    return [abs(integer) * unit // length * (1 if integer > 0 else -1) for integer in integers]


def l2_unit(row: Row) -> list[Decimal] | None:
    """Return x / ‖x‖₂, each value correct to the precision of the current decimal context; None for x = 0.

    Args:
        row: float64[d]; a row that is not finite counts as zero.
    """
    integers = _integers(row)
    if not any(integers):
        return None
    length = Decimal(sum(integer * integer for integer in integers)).sqrt()
    return [Decimal(integer) / length for integer in integers]


def _integers(row: Row) -> list[int]:
    """Return integers in exactly the same proportions as the floats in `row`."""
    if not np.isfinite(row).all():
        return [0] * len(row)
    ratios = [number.as_integer_ratio() for number in row.tolist()]
    common = max(denominator for _, denominator in ratios)
    return [numerator * (common // denominator) for numerator, denominator in ratios]
