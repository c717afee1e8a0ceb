"""Neighbours for the loader of a data kind from another package: does each row become a record by itself?

Our own loaders are read and played against by the project's tests. Another package's loader is not, and a common one
standardises columns over the whole file, so that one row changes every record. Its runs are therefore proved only if it
can write files of made-up rows, and the loader then reads neighbouring files as it must.
"""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from sottovoce.data.dataset import Table

_ROWS = 12
_MANY = 300
EXTREMES = 1_000_000
"""First number of a row that should be extreme: all zero, tiny or huge numbers, equal keys, missing cells."""

Reader = Callable[[Path], Table]
Writer = Callable[[Path, Sequence[int]], None]
"""Writes a file with made-up rows, one for each number, in this order; the same number always means the same row. From
EXTREMES on, rows are as extreme as the format permits, because a loader may treat a whole file differently for one such
row."""


def find_instability(read: Reader, write: Writer) -> str:
    """Return how the loader breaks the rule that each row becomes a record by itself; empty if no file shows it.

    Files are played that lack a row, contain another row in its place, are in another order, or have one row or none.
    In each, a row must become the record that it is in the whole file, at its own position, and everything that the
    loader declares (columns, classes and bounds) must stay the same.

    Args:
        read: the loader, given a path.
        write: see Writer.
    """
    base, many = list(range(_ROWS)), list(range(_MANY))
    extremes = list(range(EXTREMES, EXTREMES + _ROWS))
    files = [[*many, *extremes], base[::-1], [], *([number] for number in base)]
    files += [base[:index] + base[index + 1 :] for index in base]
    files += [[*base[:index], _ROWS + index, *base[index + 1 :]] for index in base]
    files += [[*base, number] for number in extremes] + [[number, *base] for number in extremes]
    files += [many, many[1:], many[:-1], [*many[1:], *many[:1]], [*many, extremes[0]]]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "rows"
        known: dict[int, bytes] = {}
        header = b""
        for numbers in files:
            write(path, numbers)
            table = read(path)
            records, declared = _records(table), _header(table)
            if len(records) != len(numbers):
                return f"a file of {len(numbers)} rows becomes {len(records)} records"
            if not known:
                known, header = dict(zip(numbers, records, strict=True)), declared
                if len({known[number] for number in many}) < len(many):
                    return "write makes equal rows, so neighbours would be alike; make every row different"
            if declared != header:
                return "its columns, classes, bounds or test split depend on the rows"
            if records != [known[number] for number in numbers]:
                return "a row changes the record of another row, or its position"
    return ""


def _records(table: Table) -> list[bytes]:
    values, labels = table.rows
    columns = [np.zeros(len(values)) if column is None else column for column in (table.windows, table.groups)]
    return [
        np.ascontiguousarray(row, dtype=np.float64).tobytes() + "|".join(map(str, others)).encode()
        for row, *others in zip(values, labels, *columns, strict=True)
    ]


def _header(table: Table) -> bytes:
    bounds = table.bounds if table.bounds is None or isinstance(table.bounds, str) else [*map(list, table.bounds)]
    held_out = 0 if table.test is None else len(table.test[0])
    return repr((table.columns, table.classes, table.labels, bounds, held_out)).encode()
