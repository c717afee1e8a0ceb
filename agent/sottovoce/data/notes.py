"""Notes of a data set on its own declaration, for its owner only: on the console, never in a message or metric.

These notes are computed from private records. An agent that acted on them would reveal something about the records to
its peers; so no configuration becomes invalid because of them.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from sottovoce.data.bounds import Bounds
from sottovoce.data.records import Records
from sottovoce.data.transform import TransformName, parse_steps

_SCALED_BY_BOUNDS = "squash"
_LARGE_DELTA = 1e-3


class Note(NamedTuple):
    """Observation about a data set: the problem, and its remedy."""

    problem: str
    remedy: str


def data_notes(
    records: Records,
    *,
    bounds: Bounds | None,
    transform: TransformName,
    columns: Sequence[str] = (),
    delta: float | None = None,
) -> Iterator[Note]:
    """Yield what does not fit in a data set: the same for the doctor, `config check`, testbeds and the library.

    Args:
        records: the raw records.
        bounds: declared range of each column, float64[d] twice; None if no range is declared.
        transform: declared transform.
        columns: names of the columns, for the messages; by default, their positions from 0.
        delta: δ of the promise; None if nothing is promised.
    """
    if delta is not None:
        yield from _delta_notes(delta, len(records))
    if not len(records):
        return
    if bounds is None and any(step == _SCALED_BY_BOUNDS for step, _ in parse_steps(transform)):
        yield Note(
            f"no range is declared for the columns, so transform {transform} compresses each value by a logarithm and "
            "columns with large numbers outweigh the others",
            "declare the range of every column (data.bounds, or bounds=LOW:HIGH in the data SPEC)",
        )
    if bounds is not None:
        outside = ((records.features < bounds[0]) | (records.features > bounds[1])).sum(axis=0)
        affected = [
            f"{outside[i]} in column {columns[i] if columns else i} ({bounds[0][i]:g} to {bounds[1][i]:g})"
            for i in np.argsort(-outside, kind="stable")
            if outside[i]
        ]
        if affected:
            yield Note(
                f"of {len(records)} values per column, these are outside the declared range and are clamped to it: "
                f"{_shortened(affected, 5)}",
                "declare the actual range, in the unit of the values",
            )


def data_summary(records: Records, classes: int, labels: Sequence[str] = (), columns: Sequence[str] = ()) -> str:
    """Return the number of records, of each class's records and of constant columns as text for the owner.

    Args:
        records: the raw records.
        classes: number of classes; 1 for a regression, whose records are not counted by class.
        labels: names of the classes; by default, their numbers.
        columns: names of the columns; by default, their positions from 0.
    """
    parts = [f"{len(records)} records"]
    if classes > 1:
        names = labels or [str(label) for label in range(classes)]
        counts = np.bincount(records.labels, minlength=classes)
        parts.append(
            "labels " + _shortened([f"{name}: {count}" for name, count in zip(names, counts, strict=True)], 20)
        )
    if len(records) > 1:
        constant = np.flatnonzero(np.ptp(records.features, axis=0) == 0).tolist()
        if constant:
            parts.append("constant columns " + _shortened([columns[i] if columns else str(i) for i in constant], 5))
    return "; ".join(parts)


def _shortened(items: Sequence[str], most: int) -> str:
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(items[:most]) + more


def _delta_notes(delta: float, count: int) -> Iterator[Note]:
    if delta >= _LARGE_DELTA:
        yield Note(
            f"δ = {delta:g} permits a mechanism that publishes one of {1 / delta:.0f} records in full, so the promise "
            "protects hardly anyone",
            "choose a δ far below 1 divided by the number of records, such as 1e-5",
        )
    elif count and delta >= 1 / count:
        yield Note(
            f"δ = {delta:g} is not below 1 divided by the number of records ({count}), so a mechanism that publishes a "
            "record in full would keep the promise",
            f"choose at most {0.1 / count:.0e}",
        )
