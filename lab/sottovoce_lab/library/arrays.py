"""Arrays from a program as data sets, with what the program declares about them."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sottovoce.data import DataSet, Table, Target
from sottovoce.data.bounds import Bounds, check_bounds
from sottovoce.errors import DataError, UsageError

Floats = NDArray[np.float64]
ARRAYS = "arrays"
"""Data set name, in reports, for arrays that the caller provides."""


class RangeWarning(UserWarning):
    """Warns that values lie outside their declared range and are clipped to it."""


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """The groups of records that stay together on a device.

    Attributes:
        numbers: each record's group, numbered from 0, int64[n].
        count: the number of groups.
    """

    numbers: NDArray[np.int64]
    count: int

    def partition_for(self, agents: int) -> str:
        """Return the partition that gives each device a group, or several if there are fewer devices than groups."""
        return "each-group" if agents == self.count else "by-group"


def join_parts(data: Any, labels: ArrayLike | None) -> tuple[NDArray[Any], NDArray[Any], Groups | None]:
    """Return all features and labels, and the groups if the data are one pair per device.

    Raises:
        UsageError: if the data are neither features with labels, a pair of these, nor a list of pairs.
    """
    remedy = "pass features and labels as (X, y), or a list [(X, y), …] with one pair per device"
    if labels is not None:
        return *_check_pair((data, labels), ""), None
    if isinstance(data, np.ndarray) or not isinstance(data, Sequence) or not len(data):
        raise UsageError(f"data of type {type(data).__name__} without labels: {remedy}")
    if not all(isinstance(part, tuple | list) and len(part) == 2 and np.ndim(part[0]) == 2 for part in data):
        if len(data) != 2:
            raise UsageError(f"data with {len(data)} entries: {remedy}")
        return *_check_pair(data, ""), None
    pairs = [_check_pair(part, f"device {index}: ") for index, part in enumerate(data)]
    if len(widths := {features.shape[1] for features, _ in pairs}) > 1:
        raise UsageError(f"the devices' features have {sorted(widths)} columns; all devices need the same columns")
    numbers = np.repeat(np.arange(len(pairs)), [len(features) for features, _ in pairs]).astype(np.int64)
    features, values = (np.concatenate(arrays) for arrays in zip(*pairs, strict=True))
    return features, values, Groups(numbers, len(pairs))


def number_groups(groups: ArrayLike, records: int) -> Groups:
    """Return the groups of records, numbered in the order of their names.

    Raises:
        UsageError: if there is not one group per record.
    """
    names = np.asarray(groups)
    if names.shape != (records,):
        raise UsageError(f"groups of shape {names.shape}: pass one group for each of the {records} records")
    distinct, numbers = np.unique(names, return_inverse=True)
    return Groups(numbers.astype(np.int64), len(distinct))


def array_table(
    features: NDArray[Any],
    labels: NDArray[Any],
    bounds: tuple[ArrayLike, ArrayLike] | None,
    test: tuple[ArrayLike, ArrayLike] | None,
    classes: int | None,
) -> Table:
    """Return arrays with labels as a table."""
    return Table(
        name=ARRAYS,
        rows=(features, labels),
        test=None if test is None else _check_pair(test, "test: "),
        classes=classes,
        bounds=None if bounds is None else declared_bounds(bounds, features.shape[1]),
        origin="data",
    )


def regression_data(
    features: NDArray[Any],
    values: NDArray[Any],
    bounds: tuple[ArrayLike, ArrayLike] | None,
    target: tuple[float, float],
    test: tuple[ArrayLike, ArrayLike] | None,
) -> DataSet:
    """Return arrays with numbers to predict as a data set, whose errors are in the numbers' own unit.

    Raises:
        UsageError: if the features' bounds are missing.
    """
    if bounds is None:
        raise UsageError("target: a regression scales its features, so it needs bounds=(LOW, HIGH) too")
    feature_bounds = declared_bounds(bounds, features.shape[1])
    target_bounds = declared_bounds(target, 1)
    if target_bounds[0] >= target_bounds[1]:
        raise UsageError(f"target={target}: the lowest value must be below the highest")
    low, high = (float(bound[0]) for bound in target_bounds)
    rows = regression_rows(features, values, feature_bounds, target_bounds)
    held_out = None
    if test is not None:
        test_rows = regression_rows(*_check_pair(test, "test: "), feature_bounds, target_bounds)
        held_out = (test_rows, np.zeros(len(test_rows), dtype=np.int64))
    return Table(
        name=ARRAYS,
        rows=(rows, np.zeros(len(rows), dtype=np.int64)),
        test=held_out,
        classes=1,
        bounds=(np.full(rows.shape[1], -1.0), np.full(rows.shape[1], 1.0)),
        target=Target(
            unit="in the target's unit",
            convert=lambda records, scaled: low + (scaled + 1) / 2 * (high - low),
            baselines={},
            overlap=1,
        ),
        origin="data",
    ).dataset()


def regression_rows(features: NDArray[Any], values: NDArray[Any], bounds: Bounds, target_bounds: Bounds) -> Floats:
    """Return records of a regression, float64[n, d + 2]: scaled features, a constant for the intercept, the target."""
    numbers = values.astype(np.float64).reshape(-1, 1)
    for name, array, (low, high) in (("bounds", features, bounds), ("target", numbers, target_bounds)):
        if outside := int(((array < low) | (array > high)).any(axis=1).sum()):
            warnings.warn(
                f"{outside} of {len(array)} records lie outside {name} and are clipped to it: widen {name}, by what is "
                "publicly known",
                RangeWarning,
                stacklevel=6,
            )
    return np.hstack(
        [with_constant(scale_to_unit_range(features, bounds)), scale_to_unit_range(numbers, target_bounds)]
    )


def scale_to_unit_range(rows: NDArray[Any], bounds: Bounds) -> Floats:
    """Scale columns from their bounds to -1 … 1, clipping values outside; a column of one value becomes 0."""
    low, high = bounds
    width = np.where(high > low, high - low, 1.0)
    scaled: Floats = np.where(high > low, np.clip(2 * (rows - low) / width - 1, -1, 1), 0.0)
    return scaled


def with_constant(rows: Floats) -> Floats:
    """Append a column of ones to the rows, for the intercept."""
    return np.hstack([rows, np.ones((len(rows), 1))])


def declared_bounds(bounds: tuple[ArrayLike, ArrayLike], features: int) -> Bounds:
    """Return the declared range of each feature, float64[d] twice.

    Raises:
        DataError: if a bound is not finite, or a lower bound exceeds its upper bound.
        UsageError: if a bound is neither one number nor one for each feature.
    """
    try:
        low, high = (np.broadcast_to(np.asarray(bound, dtype=np.float64), (features,)).copy() for bound in bounds)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"bounds: specify (LOW, HIGH), each a number, or one number for each of the {features} features"
        ) from error
    return check_bounds(low, high, features, "bounds")


def _check_pair(pair: Sequence[ArrayLike], origin: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return features and labels as arrays of the same length; text in a table's column becomes an array of text."""
    features, labels = pair
    rows, values = np.asarray(features), np.asarray(labels)
    if rows.ndim != 2:
        raise UsageError(f"{origin}features of shape {rows.shape}: pass float[n, d], with one row per record")
    if values.shape != (len(rows),):
        raise DataError(
            f"{origin}labels of shape {values.shape}: pass one label for each of the {len(rows)} rows of features"
        )
    if values.dtype.kind == "O" and all(isinstance(value, str) for value in values):
        values = values.astype(str)
    if rows.dtype.kind == "O":
        rows = rows.astype(np.float64)
    return rows, values
