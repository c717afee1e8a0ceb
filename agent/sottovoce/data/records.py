"""Records in memory, which are checked once when they are created."""

from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import DataError

_LARGEST_LABEL = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Feature vectors and their labels, built with `check_records`.

    The `repr` does not show any value, so values cannot appear in a log.

    Attributes:
        features: float64[n,d], C-contiguous, finite; in a vault, in the form that its kernel reads.
        labels: int64[n], non-negative.
        windows: int64[n], number of the window to which each record belongs, such as its day; None without windows.
        identities: uint8[n,32], hash of each record as it is in the source, see `add_identities`. None if the source
            does not provide hashes; then the record itself is hashed.
        units: int64[n], number of each record's privacy unit, to which releases are charged. Set by the vault; None if
            every release covers all units.
        prepared: public description of how the features were computed from the source.
    """

    features: NDArray[np.float64] = field(repr=False)
    labels: NDArray[np.int64] = field(repr=False)
    windows: NDArray[np.int64] | None = field(default=None, repr=False)
    identities: NDArray[np.uint8] | None = field(default=None, repr=False)
    units: NDArray[np.int64] | None = field(default=None, repr=False)
    prepared: str = ""

    def __len__(self) -> int:
        return len(self.labels)

    def at(self, places: NDArray[Any] | slice) -> "Records":
        """Return the records at these positions."""
        arrays = {name: getattr(self, name) for name in ("windows", "identities", "units")}
        selected = {name: array[places] for name, array in arrays.items() if array is not None}
        return replace(self, features=self.features[places], labels=self.labels[places], **selected)


def add_identities(records: Records) -> Records:
    """Return the records with identities: a hash of each record's features, label and window before any transform.

    Two records have the same identity if and only if they are equal. Because the hash is computed before clamping and
    transforms, later settings that change the record's features do not change its identity.
    """
    if records.identities is not None:
        return records
    rows = np.ascontiguousarray(records.features + 0.0)  # turns -0.0 into 0.0
    suffixes = np.column_stack([records.labels, records.labels * 0 if records.windows is None else records.windows + 1])
    hashes = [sha256(row.tobytes() + suffix.tobytes()).digest() for row, suffix in zip(rows, suffixes, strict=True)]
    identities = np.frombuffer(b"".join(hashes), dtype=np.uint8).reshape(len(records), 32)
    return replace(records, identities=identities)


def check_records(
    features: NDArray[Any],
    labels: NDArray[Any],
    *,
    features_expected: int | None = None,
    classes: int | None = None,
    windows: NDArray[Any] | None = None,
    origin: str,
) -> Records:
    """Check two arrays and convert them to `Records`. Errors do not show any of their values.

    An empty set of records is valid, because an agent may have no records.

    Args:
        features: numeric[n,d] with d >= 1.
        labels: integer[n].
        features_expected: public value of d, if it is declared.
        classes: public number of classes, if it is declared; labels must then be 0 … classes-1.
        windows: integer[n], non-negative, if records belong to windows.
        origin: file or source for error messages.

    Returns:
        The records, as float64[n,d] and int64[n]; arrays that already have this form are not copied.

    Raises:
        DataError: for a wrong shape, length or type, a NaN or infinity, or a label out of range. Rows and columns
            in the message are counted from 0.
    """
    _check_shapes(features, labels, features_expected, origin)
    _check_labels(labels, classes, origin)
    with np.errstate(all="ignore"):  # a number of a wider type may be infinite here, which is refused below
        values = np.ascontiguousarray(features, dtype=np.float64)
    _check_finite(values, origin)
    if windows is not None:
        windows = _checked_windows(windows, len(labels), origin)
    return Records(values, np.ascontiguousarray(labels, dtype=np.int64), windows)


def _checked_windows(windows: NDArray[Any], count: int, origin: str) -> NDArray[np.int64]:
    if windows.shape != (count,) or (windows.size and windows.dtype.kind not in "iu"):
        raise DataError(
            f"{origin}: windows must be one integer per record. Store, for example, the day number of each record."
        )
    if windows.size and (int(windows.min()) < 0 or int(windows.max()) > _LARGEST_LABEL):
        raise DataError(f"{origin}: a window number is out of range. Number windows from 0.")
    return np.ascontiguousarray(windows, dtype=np.int64)


def _check_shapes(features: NDArray[Any], labels: NDArray[Any], expected: int | None, origin: str) -> None:
    if features.ndim != 2:
        raise DataError(
            f"{origin}: features have {features.ndim} dimensions. Store one row per record and one column per feature."
        )
    if labels.ndim != 1:
        raise DataError(f"{origin}: labels have {labels.ndim} dimensions. Store one integer per record.")
    if len(features) != len(labels):
        raise DataError(f"{origin}: {len(features)} rows but {len(labels)} labels. Store one label per record.")
    if features.dtype.kind not in "biuf":
        raise DataError(f"{origin}: features are stored as {features.dtype.name}. Store them as real numbers.")
    if features.shape[1] == 0:
        raise DataError(f"{origin}: there are no feature columns. Store at least one feature per record.")
    if expected is not None and features.shape[1] != expected:
        raise DataError(
            f"{origin}: {features.shape[1]} feature columns, but {expected} are declared. "
            "Correct data.features, or load the data set on which the fleet agreed."
        )


def _check_labels(labels: NDArray[Any], classes: int | None, origin: str) -> None:
    if not labels.size:
        return
    if labels.dtype.kind not in "iu":
        raise DataError(f"{origin}: labels are stored as {labels.dtype.name}. Store them as integers from 0.")
    largest = _LARGEST_LABEL if classes is None else classes - 1
    if int(labels.min()) < 0 or int(labels.max()) > largest:
        row = int(np.argmax((labels < 0) | (labels > largest)))
        span = "at least 0" if classes is None else f"0 to {largest}"
        raise DataError(f"{origin}: the label of row {row} is out of range. Number the classes {span}.")


def _check_finite(features: NDArray[np.float64], origin: str) -> None:
    if not features.size:
        return
    with np.errstate(invalid="ignore"):
        extremes = (features.min(), features.max())  # NaN and infinities appear here without an n by d temporary
    if not np.isfinite(extremes).all():
        row, column = np.argwhere(~np.isfinite(features))[0]
        raise DataError(
            f"{origin}: row {row}, column {column} is not a finite number. Repair the value or remove the record."
        )
