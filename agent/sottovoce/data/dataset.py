"""The way from a source's rows to records: a `Table` of raw rows, a public `Declaration`, and the resulting `DataSet`.

A loader only reads rows. Each row then becomes a record by itself, from public declarations alone, so adding, removing
or replacing one row changes that row's record and nothing else. In the terms of OpenDP, the conversion is 1-stable: two
tables that differ in k rows become data sets that differ in at most k records.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.data.bounds import Bounds, parse_bounds
from sottovoce.data.records import Records, check_records
from sottovoce.errors import DataError

Floats = NDArray[np.float64]

CLASSES_READ = "the classes were read off the data"
"""Reason why a data set whose classes were not declared has no proved guarantee."""

_MISSING = frozenset({"", "-", "?", "nan", "na", "n/a", "null", "none"})
_MOST_CLASSES_READ = 100  # the largest public data sets of handwriting have 62 classes; quantities exceed this quickly


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


Arrays = tuple[NDArray[Any], "NDArray[Any] | Sequence[str]"]
"""Unchecked features numeric[n,d] and labels, integer[n] or n cells of text."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """Public facts about a device's records, which the fleet agreed on before any record was read.

    Attributes:
        classes: number of classes, 1 for a regression, whose target is the last column. None on a workstation, which
            may take it from the source or read it off the labels; the data set then says that nothing is proved.
        features: number of columns; None if any number is accepted.
        columns: names of the columns, in order; empty if they have none.
        labels: names of the classes 0 … classes-1; empty if they have none.
    """

    classes: int | None = None
    features: int | None = None
    columns: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


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
        labels: names of the classes, in order; empty if they have none.
        columns: names of the columns, in order; empty if they have none.
        unproved: why no guarantee is proved for releases from this data set, such as CLASSES_READ; empty if one is.
    """

    name: str
    records: Records
    classes: int
    bounds: Bounds | None
    test: Records | None
    groups: NDArray[np.int64] | None = None
    target: Target | None = None
    labels: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    unproved: str = ""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Table:
    """Rows as a source holds them, which is all that a loader returns.

    Attributes:
        name: short name for reports.
        rows: features numeric[n,d], and labels, either integer[n] or n cells of text.
        origin: file or source, for error messages.
        test: rows of the official test split.
        columns: names of the columns according to the source; empty if it does not name them.
        classes: number of classes that the source declares, 1 for a regression; None if it declares none.
        labels: names of the classes 0 … classes-1 according to the source; empty if it does not name them.
        bounds: declared range of each column; or the text of the SPEC's option `bounds`, whose ranges are in the
            declared order of the columns, and which is parsed once their number is known.
        windows: integer[n], window of each row.
        groups: integer[n], group of each row.
        target: meaning of a regression's target.
        places: where a row is in the source, given its position and whether it is in the test split.
    """

    name: str
    rows: Arrays
    origin: str
    test: Arrays | None = None
    columns: tuple[str, ...] = ()
    classes: int | None = None
    labels: tuple[str, ...] = ()
    bounds: Bounds | str | None = None
    windows: NDArray[Any] | None = None
    groups: NDArray[Any] | None = None
    target: Target | None = None
    places: Callable[[int, bool], str] = lambda row, _: f"row {row}"

    def dataset(self, declared: Declaration | None = None) -> DataSet:
        """Convert each row to a record by itself, by the declared columns and classes.

        Raises:
            DataError: if a row does not fit the declaration, see `check_records`; or if classes are neither declared
                nor recognisable.
        """
        declared, unproved = declared or Declaration(), ""
        classes, labels = declared.classes or len(declared.labels) or None, declared.labels
        if classes is not None and self.classes not in (None, classes):
            raise DataError(
                f"{self.origin}: it declares {self.classes} classes, but data.classes is {classes}; 1 means values to "
                "predict instead of labels. Correct one of them."
            )
        if self.labels and labels and sorted(map(label_key, self.labels)) != sorted(map(label_key, labels)):
            odd = [name for name in (*self.labels, *labels) if (name in labels) != (name in self.labels)]
            raise DataError(
                f"{self.origin}: its class names differ from data.labels in {', '.join(odd)}. Correct one of them."
            )
        if len({label_key(name) for name in labels}) < len(labels):
            raise DataError(f"{self.origin}: two of {', '.join(labels)} are the same label. Name each class once.")
        if self.labels and not labels:
            if classes is not None:
                quoted = ", ".join(f'"{name}"' for name in self.labels)
                raise DataError(
                    f"{self.origin}: it names its classes, but data.labels does not, so another device might number "
                    f"them differently. Agree on their order with the fleet, for example data.labels = [{quoted}]."
                )
            labels = self.labels
        if classes is None:
            classes = self.classes
        if classes is None:
            labels, classes = self._read_classes()
            unproved = CLASSES_READ
        order = column_order(self.columns, declared.columns, self.origin)
        if classes == 1 and order is not None and order[-1] != len(order) - 1:
            raise DataError(f"{self.origin}: {self.columns[-1]} is the column to predict; list it last in data.columns")
        records = self._records(self.rows, classes, labels, order, declared.features, is_test=False)
        bounds = self.bounds
        if isinstance(bounds, str):
            bounds = parse_bounds(bounds, records.features.shape[1], self.origin)
        elif bounds is not None and order is not None:
            bounds = bounds[0][order], bounds[1][order]
        return DataSet(
            self.name,
            records,
            classes,
            bounds,
            None
            if self.test is None
            else self._records(self.test, classes, labels, order, records.features.shape[1], is_test=True),
            _group_numbers(self.groups, len(records), self.origin),
            self.target,
            labels,
            declared.columns or self.columns,
            unproved,
        )

    def _records(
        self,
        rows: Arrays,
        classes: int,
        names: tuple[str, ...],
        order: list[int] | None,
        features: int | None,
        *,
        is_test: bool,
    ) -> Records:
        values, labels = rows
        if values.shape == (0, 0) and features is not None:  # a file without lines does not tell its width
            values = np.empty((0, features))
        return check_records(
            values if order is None or values.ndim != 2 else values[:, order],
            self._class_numbers(labels, classes, names, is_test=is_test),
            features_expected=features,
            classes=classes,
            windows=None if is_test else self.windows,
            origin=f"{self.origin} (test split)" if is_test else self.origin,
        )

    def _class_numbers(
        self, labels: "NDArray[Any] | Sequence[str]", classes: int, names: tuple[str, ...], *, is_test: bool
    ) -> NDArray[Any]:
        """Return each row's class number: its label is looked up in the names, or is the number itself.

        Raises:
            DataError: if a label is not declared.
        """
        if isinstance(labels, np.ndarray) and labels.dtype.kind == "U":
            labels = labels.tolist()
        if isinstance(labels, np.ndarray):
            return labels if classes == 1 else self._renumbered(labels, names, is_test=is_test)
        known = {label_key(name): code for code, name in enumerate(names or map(str, range(classes)))}
        codes = np.empty(len(labels), dtype=np.int64)
        for row, label in enumerate(labels):
            code = known.get(label_key(label))
            if code is None:
                hint = "" if names else f", which are 0 … {classes - 1}; if they have names, list those"
                raise self._unknown_label(row, is_test=is_test, hint=hint)
            codes[row] = code
        return codes

    def _renumbered(self, labels: NDArray[Any], names: tuple[str, ...], *, is_test: bool) -> NDArray[Any]:
        """Return class numbers in the declared order for a source's numbers.

        A number is an index into the source's own class names, if it has any; or the declared name itself, if these
        are numbers; or a class number.
        """
        if self.labels:
            own = [label_key(name) for name in self.labels]
            keys = [own.index(label_key(name)) for name in names]
        else:
            keys = [int(key) for name in names if re.fullmatch(r"-?\d{1,18}", key := label_key(name))]
        if keys and len(keys) < len(names):
            raise DataError(
                f"{self.origin}: some of data.labels are numbers, so a number in y may be such a name or a class "
                "number. Store the names in y as text."
            )
        if not keys or keys == [*range(len(names))] or labels.ndim != 1 or labels.dtype.kind not in "iu":
            return labels
        order = np.argsort(keys)
        codes: NDArray[np.int64] = order[np.minimum(np.searchsorted(keys, labels, sorter=order), len(keys) - 1)]
        if (is_unknown := np.array(keys)[codes] != labels).any():
            raise self._unknown_label(int(np.argmax(is_unknown)), is_test=is_test)
        return codes

    def _unknown_label(self, row: int, *, is_test: bool, hint: str = "") -> DataError:
        return DataError(
            f"{self.origin}: the label in {self.places(row, is_test)} is not one of the declared classes{hint}. "
            "Correct the row, or declare the class in data.labels (in a testbed, labels=NAME,NAME,…)."
        )

    def _read_classes(self) -> tuple[tuple[str, ...], int]:
        """Return the names and number of the classes that the rows contain, sorted, as numbers if all are numbers.

        Raises:
            DataError: if a label is missing or labels are quantities, or there are fewer than two classes.
        """
        parts = [np.asarray(self.rows[1]), *(() if self.test is None else (np.asarray(self.test[1]),))]
        names: tuple[str, ...] = ()
        filled = [part for part in parts if part.size]
        if any(part.dtype.kind == "U" for part in filled):
            names = self._read_names([label for part in parts for label in part.tolist()], len(parts[0]))
            count = len(names)
        elif any(part.dtype.kind not in "iu" for part in filled):
            count = 2  # check_records refuses such labels
        else:
            numbers = np.unique(np.concatenate(filled)) if filled else np.empty(0, dtype=np.int64)
            count = int(numbers[-1]) + 1 if len(numbers) else 0
            if _looks_like_quantity(len(numbers), sum(map(len, filled))):
                raise self._quantity(len(numbers))
        if count < 2:
            raise DataError(
                f"{self.origin}: there are fewer than two classes. Load records with at least two classes, or a file "
                "that declares the array `classes` (npz) or the option labels=NAME,NAME,… (CSV)."
            )
        return names, count

    def _read_names(self, labels: list[str], training_rows: int) -> tuple[str, ...]:
        row = next((row for row, label in enumerate(labels) if label.lower() in _MISSING), None)
        if row is not None:
            place = self.places(row, False) if row < training_rows else self.places(row - training_rows, True)
            raise DataError(
                f"{self.origin}: the label in {place} looks like a missing value. Fill it in, remove the row, or "
                "declare the labels with labels=NAME,NAME,…"
            )
        numbers = [number for number in map(parse_number, labels) if number is not None]
        if len(numbers) < len(labels):
            return tuple(sorted({label_key(label) for label in labels}))
        distinct = sorted(set(numbers))
        if any(number != int(number) for number in distinct) or _looks_like_quantity(len(distinct), len(labels)):
            raise self._quantity(len(distinct))
        return tuple(str(int(number)) for number in distinct)

    def _quantity(self, distinct: int) -> DataError:
        return DataError(
            f"{self.origin}: the labels are {distinct} different numbers, which look like a quantity to predict. For a "
            "regression (model ridge), use target=COLUMN instead of label=COLUMN; in an npz file, make them the last "
            "column of X and set classes to 1. If they are classes, declare how many (classes=NUMBER)."
        )


def arrays_missing() -> Table:
    """Refuse to load `arrays`, which only `Agent.open(…, records=)` provides.

    Raises:
        DataError: always.
    """
    raise DataError(
        "arrays: a program must pass these records to Agent.open(…, records=(X, y)). For a command, set data.source to "
        "a file, for example npz:/data/records.npz"
    )


def column_order(columns: tuple[str, ...], declared: tuple[str, ...], origin: str) -> list[int] | None:
    """Return the position of each declared column in a source; None if one of them does not name its columns.

    Raises:
        DataError: if the names differ.
    """
    if not declared or not columns:
        return None
    missing = [name for name in declared if name not in columns]
    surplus = [name for name in columns if name not in declared]
    if missing or surplus or len(columns) != len(declared):
        parts = [f"it has no column {', '.join(missing)}"] if missing else []
        parts += [f"data.columns does not list {', '.join(surplus)}"] if surplus else []
        raise DataError(
            f"{origin}: its columns are not those in data.columns: {' and '.join(parts) or 'a name is used twice'}. "
            "Correct the heading or data.columns."
        )
    return [columns.index(name) for name in declared]


def _looks_like_quantity(distinct: int, rows: int) -> bool:
    """Return whether this count of different numbers suggests a quantity, such as a price, and not class numbers."""
    return distinct > _MOST_CLASSES_READ or distinct > max(20, rows // 3)


def label_key(label: str) -> str:
    """Return a label in the form in which it is looked up, in which 1, 1.0, 01 and a 1 between spaces are the same."""
    label = label.strip()
    if re.fullmatch(r"[-+]?\d+", label, re.ASCII):
        return str(int(label)) if len(label) < 1000 else label
    number = parse_number(label)
    return label if number is None or number != int(number) else str(int(number))


def parse_number(cell: str) -> float | None:
    """Return the finite number in a cell, or None; `1_000`, which Python would read, is none."""
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) and cell.isascii() and "_" not in cell else None


def _group_numbers(groups: NDArray[Any] | None, count: int, origin: str) -> NDArray[np.int64] | None:
    if groups is None:
        return None
    if groups.shape != (count,) or (count and groups.dtype.kind not in "iu"):
        raise DataError(f"{origin}: groups must be one integer per record. Store the group number of each record.")
    return np.unique(groups, return_inverse=True)[1].astype(np.int64)
