"""A loaded data set, with its records, its regression target, and all public facts about them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.data.bounds import Bounds
from sottovoce.data.records import Records, check_records
from sottovoce.errors import DataError

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """Description of a regression target, which test harnesses use to score predictions of the last column.

    Attributes:
        unit: unit in which errors are reported, for example `kWh`.
        convert: function that takes records float64[m, d] and their targets float64[N, m], predicted or true, and
            returns the targets in that unit.
        baselines: predictions for the test records that require no learning, keyed by name; float64[m] in that unit.
        overlap: maximum number of records to which one measured value contributes.
    """

    unit: str
    convert: Callable[[Floats, Floats], Floats] = field(repr=False)
    baselines: Mapping[str, Floats] = field(repr=False)
    overlap: int


Arrays = tuple[NDArray[Any], NDArray[Any]]
"""Unchecked features numeric[n,d] and labels integer[n]."""


@dataclass(frozen=True, slots=True, eq=False)
class DataSet:
    """The data set that a data SPEC describes.

    Attributes:
        name: short name for reports.
        records: all records, or the training part if the source has an official test split.
        classes: number of classes; labels are 0 … classes-1. A value of 1 means a
            regression, whose target is the last feature.
        bounds: publicly declared range of each feature, or None if no range is declared.
        test: official test split, or None if the source has none.
        groups: int64[n], group of each of `records`, such as its household, numbered from 0; None without groups.
            Groups are used only to partition records among agents; agents do not see them.
        target: meaning of a regression's target; None if it is not declared.
    """

    name: str
    records: Records
    classes: int
    bounds: Bounds | None
    test: Records | None
    groups: NDArray[np.int64] | None = None
    target: Target | None = None


def assemble_dataset(
    name: str,
    train: Arrays,
    *,
    test: Arrays | None = None,
    classes: int | None = None,
    bounds: Bounds | None = None,
    windows: NDArray[Any] | None = None,
    groups: NDArray[Any] | None = None,
    target: Target | None = None,
    origin: str,
) -> DataSet:
    """Check the parts of a data set and combine them.

    Args:
        name: short name for reports.
        train: features numeric[n,d] and labels integer[n].
        test: features numeric[m,d] and labels integer[m] of the official test split.
        classes: declared number of classes, 1 for a regression. By default, one more than the largest label in
            either part; this number must be at least 2.
        bounds: declared range, float64[d] twice.
        windows: integer[n], window of each record in `train`.
        groups: integer[n], group of each record in `train`.
        target: meaning of a regression's target.
        origin: file or source for error messages.

    Returns:
        The data set.

    Raises:
        DataError: see `check_records`; or if there are fewer than two classes and their number is not declared, or
            groups are not one integer per record.
    """
    records = check_records(*train, classes=classes, windows=windows, origin=origin)
    columns = records.features.shape[1]
    test_records = None
    if test is not None:
        test_records = check_records(*test, features_expected=columns, classes=classes, origin=f"{origin} (test split)")
    if classes is None:
        parts = (records,) if test_records is None else (records, test_records)
        classes = 1 + max((int(part.labels.max()) for part in parts if len(part)), default=-1)
        if classes < 2:
            raise DataError(
                f"{origin}: there are fewer than two classes. Load records with at least two classes, or an npz file "
                "that declares the array `classes`."
            )
    return DataSet(name, records, classes, bounds, test_records, _group_numbers(groups, len(records), origin), target)


def _group_numbers(groups: NDArray[Any] | None, count: int, origin: str) -> NDArray[np.int64] | None:
    if groups is None:
        return None
    if groups.shape != (count,) or (count and groups.dtype.kind not in "iu"):
        raise DataError(f"{origin}: groups must be one integer per record. Store the group number of each record.")
    return np.unique(groups, return_inverse=True)[1].astype(np.int64)
