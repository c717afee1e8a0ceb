"""Files of a device's records, in the layouts that people use, and the [data] section that declares them."""

import csv
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from sottovoce.config import AgentConfig, DataSection

from tests.neighbours.rows import Row

_COLUMNS = ("power [W]", "voltage", "hour")
LABELS = ("away", "home")


@dataclass(frozen=True)
class Layout:
    """Layout of a file, which is the same in both worlds because it is public.

    Attributes:
        kind: `csv` or `npz`.
        order: order of the columns in the file.
        columns: names of the columns in the declared order; empty if they have none.
        labels: names of the classes in the file's order; empty if labels are numbers.
        delimiter: delimiter of a CSV file.
        header: whether a CSV file has a heading.
    """

    kind: str
    order: tuple[int, ...]
    columns: tuple[str, ...]
    labels: tuple[str, ...]
    delimiter: str
    header: bool


def draw_layout(rng: random.Random, *, has_windows: bool, features: int = len(_COLUMNS)) -> Layout:
    """Draw a layout; only npz files have windows."""
    names = _COLUMNS if features == len(_COLUMNS) else tuple(f"column {number}" for number in range(features))
    columns, header = rng.choice(((), names)), rng.random() < 0.7
    kind = "npz" if has_windows else rng.choice(("csv", "npz"))
    order = [*range(features)]
    if columns and (header or kind == "npz"):
        rng.shuffle(order)
    labels = rng.choice(((), LABELS, LABELS[::-1]))
    return Layout(kind, tuple(order), columns, labels, rng.choice(",;\t"), header)


def write_records(directory: Path, layout: Layout, rows: list[Row], config: AgentConfig) -> DataSection:
    """Write the rows to a file, and return the section that declares it."""
    return msgspec.structs.replace(
        config.data,
        source=write_rows(directory, layout, rows, has_windows=config.data.windows is not None),
        columns=layout.columns,
        labels=LABELS if layout.labels else (),
    )


def write_rows(directory: Path, layout: Layout, rows: list[Row], *, has_windows: bool) -> str:
    """Write the rows to a file, and return its data SPEC."""
    path = directory / f"records.{layout.kind}"
    if layout.kind == "csv":
        return _write_csv(path, layout, rows)
    _write_npz(path, layout, rows, has_windows=has_windows)
    return f"npz:{path}"


def _write_csv(path: Path, layout: Layout, rows: list[Row]) -> str:
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, delimiter=layout.delimiter)
        if layout.header:
            names = layout.columns or [f"unnamed {number}" for number in layout.order]
            table.writerow((*(names[i] for i in layout.order), "state"))
        for row in rows:
            label = LABELS[row.label] if layout.labels else row.label
            table.writerow((*(repr(row.features[i]) for i in layout.order), label))
    option = "label=state" if layout.header else "header=no&label=-1"
    return f"csv:{path}#{option}&delimiter={layout.delimiter}"


def _write_npz(path: Path, layout: Layout, rows: list[Row], *, has_windows: bool) -> None:
    features = np.array([row.features for row in rows], dtype=np.float64).reshape(len(rows), len(layout.order))
    arrays: dict[str, Any] = {"X": features[:, layout.order]}
    codes = [layout.labels.index(LABELS[row.label]) if layout.labels else row.label for row in rows]
    arrays["y"] = np.array(codes, dtype=np.int64)
    arrays["classes"] = np.array(layout.labels) if layout.labels else np.array(len(LABELS))
    if layout.columns:
        arrays["columns"] = np.array([layout.columns[i] for i in layout.order])
    if has_windows:
        arrays["windows"] = np.array([row.window for row in rows], dtype=np.int64)
    np.savez(path, **arrays)
