"""A loaded data set: its records and all public facts about it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.data.bounds import Bounds
from sottovoce.data.records import Records, checked
from sottovoce.data.target import Target
from sottovoce.errors import DataError

Arrays = tuple[NDArray[Any], NDArray[Any]]
"""Features numeric[n,d] and labels integer[n], not checked yet."""


@dataclass(frozen=True, slots=True, eq=False)
class DataSet:
    """Data set of a data SPEC.

    Attributes:
        name: a short name for reports.
        records: the records, or the training part when the source has an official test split.
        classes: the number of classes; labels are 0 … classes-1. With 1 there are no classes to distinguish: the last
            feature is the target of a regression.
        bounds: the publicly declared range of each feature, or None when none is declared.
        test: the official test split, or None when the source has none.
        groups: int64[n], the group of each of `records`, such as its household, numbered from 0; None without groups.
            It is used to deal out records, and no agent sees it.
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
    """Check the parts of a data set and put them together.

    Args:
        name: a short name for reports.
        train: features numeric[n,d] and labels integer[n].
        test: features numeric[m,d] and labels integer[m] of the official test split.
        classes: the declared number of classes, 1 for a regression. Without it, 2 or more: one more than the largest
            label of both parts.
        bounds: the declared range, float64[d] twice.
        windows: integer[n], the window of each record of `train`.
        groups: integer[n], the group of each record of `train`.
        target: target of a regression.
        origin: the file or source to name in an error.

    Returns:
        the data set.

    Raises:
        DataError: see `checked`; or fewer than two classes without a declared number, or groups that are not one
            integer per record.
    """
    records = checked(*train, classes=classes, windows=windows, origin=origin)
    columns = records.features.shape[1]
    held_out = None
    if test is not None:
        held_out = checked(*test, features_expected=columns, classes=classes, origin=f"{origin} (test split)")
    if classes is None:
        parts = (records,) if held_out is None else (records, held_out)
        classes = 1 + max((int(part.labels.max()) for part in parts if len(part)), default=-1)
        if classes < 2:
            raise DataError(
                f"{origin}: there are fewer than two classes. Load records of two classes, or an npz file that "
                "declares the array `classes`."
            )
    return DataSet(name, records, classes, bounds, held_out, _group_numbers(groups, len(records), origin), target)


def _group_numbers(groups: NDArray[Any] | None, count: int, origin: str) -> NDArray[np.int64] | None:
    if groups is None:
        return None
    if groups.shape != (count,) or (count and groups.dtype.kind not in "iu"):
        raise DataError(f"{origin}: groups are not one whole number per record. Store the number of its group.")
    return np.unique(groups, return_inverse=True)[1].astype(np.int64)
