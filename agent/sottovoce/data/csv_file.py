"""`csv:FILE#label=COLUMN`: one record per line, with the label in one column and numbers in the others."""

import csv
import io
import math
import re
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from sottovoce.data.bounds import parse_bounds
from sottovoce.data.dataset import DataSet, assemble_dataset
from sottovoce.data.files import open_for_reading
from sottovoce.errors import DataError
from sottovoce.suggestions import suggest_name

# If line 1 has such a cell, the line may be a record or contain joined cells, so messages never show its "names".
_RECORD_LIKE = re.compile(r"[;|\t,]|^\s*[-+.]*\d")


@dataclass(frozen=True, slots=True)
class _Format:
    """A file's format: the delimiter, whether line 1 contains column names, and the non-feature columns by option."""

    delimiter: str
    header: bool
    columns: dict[str, str]


_Table = tuple[NDArray[np.float64], dict[str, list[str]]]
"""Features float64[n,d], and the text cells of each option's column."""


def load_csv(path: Path, options: Mapping[str, str]) -> DataSet:
    """Load a text table. The file's distinct labels, sorted (as numbers if all are numbers), become 0 … classes-1.

    Args:
        path: path of the file, in UTF-8, compressed with gzip if its name ends in `.gz`.
        options: `label` (a column name, or with `header=no` an index from 0, where -1 is the last column); `group`,
            another non-feature column: records with equal values in it belong to the same group; `header=yes|no`;
            `delimiter`, one character; `bounds`, see `parse_bounds`; `test`, a second file in the same format that
            contains the official test split; its path is relative to the first file's directory.

    Returns:
        The data set. Labels are numbered over both files.

    Raises:
        DataError: if the file cannot be read, an option is wrong, or a line is not a record. The message states the
            line and column, counted from 1, but never the cell's content.
    """
    delimiter = options.get("delimiter", ",")
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise DataError(f"{path}: the delimiter must be one character. For example, write delimiter=;")
    header = options.get("header", "yes")
    if header not in ("yes", "no"):
        raise DataError(f"{path}: header={header} is neither yes nor no. Use header=no if line 1 is a record.")
    columns = {name: options[name] for name in ("label", "group") if name in options}
    file_format = _Format(delimiter, header == "yes", columns)
    features, texts = _read_table(path, file_format)
    groups = _encode_labels(texts["group"]) if "group" in texts else None
    bounds = parse_bounds(options["bounds"], features.shape[1], str(path)) if "bounds" in options else None
    if "test" not in options:
        train = (features, _encode_labels(texts["label"]))
        return assemble_dataset(f"csv:{path.name}", train, bounds=bounds, groups=groups, origin=str(path))
    test_features, test_texts = _read_table(path.parent / options["test"], file_format)
    codes = _encode_labels(texts["label"] + test_texts["label"])
    return assemble_dataset(
        f"csv:{path.name}",
        (features, codes[: len(features)]),
        test=(test_features, codes[len(features) :]),
        bounds=bounds,
        groups=groups,
        origin=str(path),
    )


def _read_table(path: Path, file_format: _Format) -> _Table:
    with (
        open_for_reading(path, "Specify a text file with one record per line.") as stream,
        io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text,
    ):
        return _parse_table(path, _lines(path, text, file_format.delimiter), file_format)


def _lines(path: Path, text: TextIO, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(text, delimiter=delimiter, strict=True)
    try:
        for cells in reader:
            if cells:
                yield reader.line_num, cells
    except csv.Error:
        raise DataError(f"{path}: line {reader.line_num} is not valid CSV; check the quotation marks") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8 text. Save it as UTF-8.") from None


def _parse_table(path: Path, lines: Iterator[tuple[int, list[str]]], file_format: _Format) -> _Table:
    first = next(lines, None)
    if first is None:
        raise DataError(f"{path} is empty. Specify a file with one record per line.")
    width = len(first[1])
    if width < 2:
        raise DataError(f"{path}: line {first[0]} has a single column. Set the delimiter, for example delimiter=;")
    option_columns = {
        option: _column_by_name(path, first[1], option, column)
        if file_format.header
        else _column_by_index(path, width, option, column)
        for option, column in file_format.columns.items()
    }
    columns = [column for column in range(width) if column not in option_columns.values()]
    if not columns:
        raise DataError(f"{path} has no feature column. Add one, or correct label and group.")
    values, texts = array("d"), {option: list[str]() for option in option_columns}
    for number, cells in lines if file_format.header else _prepend(first, lines):
        if len(cells) != width:
            raise DataError(f"{path}: line {number} has {len(cells)} columns instead of {width}. Repair the line.")
        for option, column in option_columns.items():
            texts[option].append(cells[column].strip())
            if not texts[option][-1]:
                raise DataError(
                    f"{path}: line {number} has an empty {option}. Fill in the value, or remove the record."
                )
        for column in columns:
            value = _parse_finite(cells[column])
            if value is None:
                raise DataError(
                    f"{path}: line {number}, column {column + 1} is not a finite number. Repair the value or "
                    "remove the record" + ("; if it is a heading, remove header=no." if number == 1 else ".")
                )
            values.append(value)
    if not texts["label"]:
        raise DataError(f"{path} has a heading but no records. Specify a file with one record per line.")
    return np.frombuffer(values, dtype=np.float64).reshape(-1, len(columns)), texts


def _prepend(first: tuple[int, list[str]], rest: Iterator[tuple[int, list[str]]]) -> Iterator[tuple[int, list[str]]]:
    yield first
    yield from rest


def _column_by_name(path: Path, cells: list[str], option: str, column: str) -> int:
    names = [cell.strip() for cell in cells]
    if names.count(column) == 1:
        return names.index(column)
    if column in names:
        raise DataError(f"{path}: several columns are named {column!r}. Column names must be unique.")
    if any(_RECORD_LIKE.search(name) for name in names):
        raise DataError(
            f"{path}: line 1 has no column {column!r}. If line 1 is a record, add &header=no and specify the {option} "
            "column by index (-1 is the last); otherwise check the name and the delimiter."
        )
    similar = suggest_name(column, names)
    remedy = f"Did you mean {option}={similar}?" if similar else f"Its columns are {', '.join(names)}."
    raise DataError(f"{path}: there is no column {column!r}. {remedy}")


def _column_by_index(path: Path, width: int, option: str, column: str) -> int:
    if not re.fullmatch(r"-?\d{1,9}", column) or not -width <= int(column) < width:
        raise DataError(
            f"{path}: {option}={column} is not a column index. With header=no, use an integer from 0 to {width - 1}, "
            "or -1 for the last column."
        )
    return int(column) % width


def _parse_finite(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _encode_labels(labels: list[str]) -> NDArray[np.int64]:
    numbers = [_parse_finite(label) for label in labels]
    keys: list[Any] = labels if None in numbers else numbers
    codes = {key: code for code, key in enumerate(sorted(set(keys)))}
    return np.array([codes[key] for key in keys], dtype=np.int64)
