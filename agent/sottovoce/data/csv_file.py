"""`csv:FILE#label=COLUMN`: one record per line, with the label in one column and numbers in the others."""

import csv
import io
import re
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from sottovoce.data.dataset import Table, parse_number
from sottovoce.data.files import open_for_reading
from sottovoce.errors import DataError
from sottovoce.suggestions import suggest_name

# If line 1 has such a cell, the line may be a record or contain joined cells, so messages never show its "names".
_RECORD_LIKE = re.compile(r"[;|\t,]|^\s*[-+.]*\d")


_UNNAMED = re.compile(r"(Unnamed: \d+)?")  # headings of the index that pandas writes by default


@dataclass(frozen=True, slots=True)
class _Format:
    """A file's format: the delimiter, whether line 1 contains column names, and the columns by option.

    `label` and `group` are text. `target` is a number, which becomes the last column.
    """

    delimiter: str
    header: bool
    columns: dict[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """A file's rows: float64[n,d], the text cells of each option's column, line numbers, and the columns' names."""

    values: NDArray[np.float64]
    texts: dict[str, list[str]]
    lines: "array[int]"
    names: tuple[str, ...]


def load_csv(path: Path, options: Mapping[str, str]) -> Table:
    """Read a text table.

    Args:
        path: path of the file, in UTF-8, compressed with gzip if its name ends in `.gz`.
        options: `label` (a column name, or with `header=no` an index from 0, where -1 is the last column), or instead
            `target`, the column of numbers to predict; `labels`, the class names in order, separated by commas, or
            `classes`, their number if the labels are 0 … classes-1; `group`, another non-feature column: records with
            equal values in it belong to the same group; `header=yes|no`; `delimiter`, one character; `bounds`, see
            `parse_bounds`; `test`, a second file in the same format that contains the official test split; its path is
            relative to the first file's directory.

    Returns:
        The rows, in the file's order.

    Raises:
        DataError: if the file cannot be read, an option is wrong, or a line is not a row. The message states the
            line and column, counted from 1, but never the cell's content.
    """
    delimiter = options.get("delimiter", ",")
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise DataError(f"{path}: the delimiter must be one character. For example, write delimiter=;")
    header = options.get("header", "yes")
    if header not in ("yes", "no"):
        raise DataError(f"{path}: header={header} is neither yes nor no. Use header=no if line 1 is a record.")
    if ("label" in options) == ("target" in options):
        raise DataError(f"{path}: specify either label=COLUMN, for classes, or target=COLUMN, for values to predict.")
    columns = {name: options[name] for name in ("label", "target", "group") if name in options}
    file_format = _Format(delimiter, header == "yes", columns)
    rows = _read_table(path, file_format)
    test_path = path.parent / options["test"] if "test" in options else None
    test = None if test_path is None else _read_table(test_path, file_format)
    if test is not None and test.names != rows.names:
        raise DataError(f"{test_path}: its columns are not those of {path}. Use the same heading in both files.")
    classes, labels = _declared_classes(path, options)

    def place(row: int, is_test: bool) -> str:
        return f"line {(test if is_test and test is not None else rows).lines[row]}"

    return Table(
        name=f"csv:{path.name}",
        rows=_arrays(rows),
        test=None if test is None else _arrays(test),
        columns=rows.names,
        classes=classes,
        labels=labels,
        bounds=options.get("bounds"),
        groups=_group_numbers(rows.texts["group"]) if "group" in rows.texts else None,
        origin=str(path),
        places=place,
    )


def _arrays(rows: _Rows) -> "tuple[NDArray[np.float64], NDArray[np.int64] | list[str]]":
    """Return a file's values and labels; a target needs none."""
    return rows.values, rows.texts.get("label", np.zeros(len(rows.values), dtype=np.int64))


def _group_numbers(cells: list[str]) -> NDArray[np.int64]:
    """Return the cells' ranks, as numbers if all are numbers. They may depend on all rows: agents never see groups."""
    numbers = [number for number in map(parse_number, cells) if number is not None]
    return np.unique(numbers if len(numbers) == len(cells) else cells, return_inverse=True)[1].astype(np.int64)


def _declared_classes(path: Path, options: Mapping[str, str]) -> tuple[int | None, tuple[str, ...]]:
    """Return the number and the names of the classes that the options declare, or None and no names."""
    given = {"labels", "classes"} & options.keys()
    if "target" in options and given:
        raise DataError(
            f"{path}: {' and '.join(sorted(given))} apply only to labels. Remove them, or use label=COLUMN."
        )
    if "target" in options:
        return 1, ()
    if len(given) == 2:
        raise DataError(f"{path}: classes and labels are both set. Remove classes, which follows from the names.")
    if "labels" in given:
        names = tuple(name.strip() for name in options["labels"].split(","))
        if len(names) < 2 or "" in names or len(set(names)) != len(names):
            raise DataError(f"{path}: labels={options['labels']} must be at least two different names.")
        return len(names), names
    if "classes" in given:
        if not re.fullmatch(r"[1-9]\d{0,4}", options["classes"]) or int(options["classes"]) < 2:
            raise DataError(f"{path}: classes={options['classes']} must be an integer of at least 2.")
        return int(options["classes"]), ()
    return None, ()


def _read_table(path: Path, file_format: _Format) -> _Rows:
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
        raise DataError(
            f"{path}: line {reader.line_num} is not valid CSV; check the quotation marks, or shorten a cell above "
            f"{csv.field_size_limit():,} characters"
        ) from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8 text. Save it as UTF-8.") from None


def _parse_table(path: Path, lines: Iterator[tuple[int, list[str]]], file_format: _Format) -> _Rows:
    first = next(lines, None)
    if first is None and file_format.header:
        raise DataError(f"{path} is empty. Specify a file whose line 1 contains the column names.")
    if first is None:  # a device may have no records
        return _Rows(
            np.empty((0, 0)), {option: [] for option in file_format.columns if option != "target"}, array("q"), ()
        )
    width = len(first[1])
    if width < 2:
        raise DataError(f"{path}: line {first[0]} has a single column. Set the delimiter, for example delimiter=;")
    option_columns = {
        option: _column_by_name(path, first[1], option, column)
        if file_format.header
        else _column_by_index(path, width, option, column)
        for option, column in file_format.columns.items()
    }
    target = option_columns.pop("target", None)
    columns = [column for column in range(width) if column not in (*option_columns.values(), target)]
    if not columns:
        raise DataError(f"{path} has no feature column. Add one, or correct label and group.")
    columns += [] if target is None else [target]
    names = tuple(first[1][column].strip() for column in columns) if file_format.header else ()
    for column, name in zip(columns, names, strict=False):
        if _UNNAMED.fullmatch(name):
            raise DataError(
                f"{path}: line 1 does not name column {column + 1}, which may be pandas' index. Write the file with "
                "index=False, or name the column if it is a feature."
            )
    values, texts, numbers = array("d"), {option: list[str]() for option in option_columns}, array("q")
    for number, cells in lines if file_format.header else _prepend(first, lines):
        if len(cells) != width:
            raise DataError(f"{path}: line {number} has {len(cells)} columns instead of {width}. Repair the line.")
        numbers.append(number)
        for option, column in option_columns.items():
            texts[option].append(cells[column].strip())
            if not texts[option][-1]:
                raise DataError(
                    f"{path}: line {number} has an empty {option}. Fill in the value, or remove the record."
                )
        for column in columns:
            value = parse_number(cells[column].strip())
            if value is None:
                raise DataError(
                    f"{path}: line {number}, column {column + 1} is not a finite number. Repair the value or "
                    "remove the record" + ("; if it is a heading, remove header=no." if number == 1 else ".")
                )
            values.append(value)
    table = np.frombuffer(values) if values else np.empty(0)
    return _Rows(table.reshape(-1, len(columns)), texts, numbers, names)


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
