"""`npz:FILE`: arrays in numpy's format. Agents load their own records through this module, so it uses little memory."""

import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.data.bounds import Bounds, check_bounds
from sottovoce.data.dataset import Arrays, Table
from sottovoce.data.files import open_for_reading
from sottovoce.errors import DataError

_FEATURES = ("X", "features")
_LABELS = ("y", "labels")
_KNOWN_ARRAYS = frozenset(
    {*_FEATURES, *_LABELS, "bounds", "classes", "columns", "groups", "test", "windows", "X_test", "y_test"}
)
_REMEDY = "Write it again with numpy.savez_compressed(file, X=…, y=…)."


def load_npz(path: Path, options: Mapping[str, str]) -> Table:
    """Read `X` numeric[n,…] and `y` integer[n] or text[n], which may also be named `features` and `labels`.

    Each record is flattened to one row. Optional arrays: `classes`, the class names, or the public number of
    classes as one integer, which is 1 for a regression, whose target is the last column; `columns`, the columns' names;
    `bounds` numeric[2,d]; `windows` integer[n], the window of each record, such as its day;
    `groups` integer[n], the group to which each record belongs in a partition, such as its household;
    `test` bool[n], true for records in the official test split, or that split as `X_test` and `y_test`.
    The file's content is never unpickled.

    Args:
        path: path of the file.
        options: `bounds=LOW:HIGH`, the declared range of every feature, which replaces the bounds in the file.

    Returns:
        The rows, in the file's order.

    Raises:
        DataError: if the file cannot be read or contains pickled objects, or an array is missing or has the wrong
            shape.
    """
    arrays, origin = load_arrays(path, _KNOWN_ARRAYS), str(path)
    features, codes = (
        _rows(_required_array(arrays, _FEATURES, origin), origin),
        _required_array(arrays, _LABELS, origin),
    )
    train, test = _split_test((features, codes), arrays, origin)
    classes, labels = _classes(arrays, origin)
    return Table(
        name=f"npz:{path.name}",
        rows=train,
        test=test,
        columns=_names(arrays, "columns", origin),
        classes=classes,
        labels=labels,
        bounds=options.get("bounds") or _bounds(arrays, train[0].shape[1], origin),
        windows=_training_part("windows", arrays, codes.shape),
        groups=_training_part("groups", arrays, codes.shape),
        origin=origin,
    )


def load_arrays(path: Path, names: frozenset[str]) -> dict[str, NDArray[Any]]:
    """Return an npz file's arrays that have one of these names.

    Raises:
        DataError: if the file cannot be read, is corrupt, or contains pickled objects.
    """
    with open_for_reading(path, _REMEDY) as stream:
        try:
            archive = np.load(stream, allow_pickle=False)
            if isinstance(archive, np.lib.npyio.NpzFile):
                return {name: archive[name] for name in archive.files if name in names}
        except (ValueError, RuntimeError, zipfile.BadZipFile):
            raise DataError(
                f"{path} is corrupt, or contains pickled objects, which are not accepted. {_REMEDY}"
            ) from None
    raise DataError(f"{path} is not an npz archive. {_REMEDY}")


def _required_array(arrays: Mapping[str, NDArray[Any]], names: tuple[str, str], origin: str) -> NDArray[Any]:
    for name in names:
        if name in arrays:
            return arrays[name]
    raise DataError(f"{origin}: the array {names[0]} (or {names[1]}) is missing. {_REMEDY}")


def _rows(array: NDArray[Any], origin: str) -> NDArray[Any]:
    if array.shape == (0,):  # from an empty list of rows
        return array.reshape(0, 0)
    if array.ndim < 2:
        raise DataError(f"{origin}: X has {array.ndim} dimensions. Store one row per record with at least one column.")
    return array.reshape(len(array), math.prod(array.shape[1:]))


def _split_test(
    all_records: tuple[NDArray[Any], NDArray[Any]], arrays: Mapping[str, NDArray[Any]], origin: str
) -> tuple[Arrays, Arrays | None]:
    test_arrays = {"X_test", "y_test"} & arrays.keys()
    if "test" in arrays:
        if test_arrays:
            raise DataError(
                f"{origin}: the test split is defined twice. Store either `test`, or `X_test` and `y_test`."
            )
        mask = arrays["test"]
        if mask.dtype != np.bool_ or any(array.shape[:1] != mask.shape for array in all_records):
            raise DataError(f"{origin}: `test` must be one boolean per record.")
        return (all_records[0][~mask], all_records[1][~mask]), (all_records[0][mask], all_records[1][mask])
    if len(test_arrays) == 1:
        raise DataError(f"{origin}: `X_test` and `y_test` must both be present. Add the missing one.")
    return all_records, (_rows(arrays["X_test"], origin), arrays["y_test"]) if test_arrays else None


def _training_part(name: str, arrays: Mapping[str, NDArray[Any]], shape: tuple[int, ...]) -> NDArray[Any] | None:
    """Return the part of an array that belongs to records outside the test split."""
    array, test = arrays.get(name), arrays.get("test")
    return array if array is None or test is None or array.shape != shape else array[~test]


def _classes(arrays: Mapping[str, NDArray[Any]], origin: str) -> tuple[int | None, tuple[str, ...]]:
    """Return the number and the names of the classes that the file declares, or None and no names."""
    if "classes" not in arrays:
        return None, ()
    declared = arrays["classes"]
    if declared.dtype.kind == "U" and declared.size > 1:
        names = _names(arrays, "classes", origin)
        return len(names), names
    if declared.size != 1 or declared.dtype.kind not in "iu" or declared.item() < 1:
        raise DataError(
            f"{origin}: `classes` must be an integer of at least 2, a list of class names, or 1 for a regression."
        )
    return int(declared.item()), ()


def _names(arrays: Mapping[str, NDArray[Any]], array: str, origin: str) -> tuple[str, ...]:
    """Return the names in an array of text; empty if there is no such array."""
    if array not in arrays:
        return ()
    names = arrays[array]
    if names.ndim != 1 or names.dtype.kind != "U" or len(set(names.tolist())) != len(names):
        raise DataError(f"{origin}: `{array}` must be a list of different names.")
    return tuple(names.tolist())


def _bounds(arrays: Mapping[str, NDArray[Any]], features: int, origin: str) -> Bounds | None:
    if "bounds" not in arrays:
        return None
    declared = arrays["bounds"]
    if declared.shape != (2, features):
        raise DataError(f"{origin}: `bounds` must have one row of low and one row of high values, {features} each.")
    return check_bounds(declared[0], declared[1], features, origin)
