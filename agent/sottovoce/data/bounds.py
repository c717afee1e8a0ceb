"""Declared ranges of features, which are public promises about quantities and are never computed from records."""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import DataError

Bounds = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Lowest and highest declared value of each feature, float64[d] each."""


def check_bounds(low: NDArray[Any], high: NDArray[Any], features: int, origin: str) -> Bounds:
    """Validate a declared range.

    Args:
        low: numeric[features], lowest value of each feature.
        high: numeric[features], highest value of each feature; equal to `low` for a feature that cannot vary.
        features: number of features d.
        origin: source, for error messages.

    Returns:
        `(low, high)` as float64[d].

    Raises:
        DataError: if a shape or type is wrong, a bound or width is not finite, or a low bound exceeds its high bound.
    """
    for side in (low, high):
        if side.shape != (features,) or side.dtype.kind not in "biuf":
            raise DataError(f"{origin}: bounds must be a low and a high number for each of the {features} features.")
    lowest, highest = low.astype(np.float64), high.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        widths = highest - lowest
    if not np.isfinite(widths).all() or (widths < 0).any():
        raise DataError(
            f"{origin}: bounds must be finite, and no lower bound may exceed its upper bound. Correct the bounds."
        )
    return lowest, highest


def uniform_bounds(low: float, high: float, features: int, origin: str) -> Bounds:
    """Declare the same range for every feature.

    Args:
        low: lowest value, finite.
        high: highest value, finite.
        features: number of features d.
        origin: source, for error messages.

    Returns:
        `(low, high)` as float64[d].

    Raises:
        DataError: see `check_bounds`.
    """
    return check_bounds(np.full(features, low), np.full(features, high), features, origin)


def parse_bounds(text: str, features: int, origin: str) -> Bounds:
    """Parse the option `bounds=LOW:HIGH` of a data SPEC, or `bounds=LOW:HIGH,LOW:HIGH*COUNT,…` feature by feature.

    Args:
        text: one range for all features, or one range per feature, where `*COUNT` repeats a range COUNT times.
        features: number of features d.
        origin: source, for error messages.

    Returns:
        `(low, high)` as float64[d].

    Raises:
        DataError: if the bounds are not finite numbers with the lower one first, or there is not one range per feature.
    """
    ranges = [span for part in text.split(",") for span in _expand_range(part, text, features, origin)]
    if "," not in text and "*" not in text:
        return uniform_bounds(*ranges[0], features, origin)
    if len(ranges) != features:
        raise DataError(
            f"{origin}: bounds={text} does not contain one range for each of the {features} features. "
            "For 55 features, for example, write bounds=0:100*54,1:20000."
        )
    lows, highs = zip(*ranges, strict=True)
    return check_bounds(np.array(lows), np.array(highs), features, origin)


def _expand_range(part: str, text: str, features: int, origin: str) -> list[tuple[float, float]]:
    """Expand LOW:HIGH or LOW:HIGH*COUNT to a list of ranges, truncated to one more than the number of features."""
    match = re.fullmatch(r"([^:*]+):([^:*]+)(?:\*([0-9]{1,7}))?", part)
    try:
        if match:
            return [(float(match[1]), float(match[2]))] * min(int(match[3] or 1), features + 1)
    except ValueError:
        pass
    raise DataError(f"{origin}: bounds={text} is not LOW:HIGH. For example, write bounds=0:255.")
