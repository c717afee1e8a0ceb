"""Example of your own data kind: `two-rings:FILE`, with one point and its ring, 0 or 1, on each line."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from sottovoce.plugin import EXTREMES, DataKind, Table, uniform_bounds


def load(path: Path, options: Mapping[str, str]) -> Table:
    """Return the rows of a file, each as it stands there: features float64[n, 3] and labels int64[n].

    A row must not change how another one is read. Numbers that describe all rows, such as bounds, are constants here.
    """
    cells = [line.split(options.get("delimiter", ",")) for line in path.read_text(encoding="utf-8").splitlines()]
    rows = np.array(cells, dtype=np.float64).reshape(-1, 3)
    features = np.column_stack([rows[:, :2], (rows[:, :2] ** 2).sum(axis=1) - 1])
    return Table(
        name="two-rings",
        rows=(features, rows[:, 2].astype(np.int64)),
        classes=2,
        columns=("x", "y", "distance"),
        bounds=uniform_bounds(-2.0, 2.0, 3, "two-rings"),
        origin=str(path),
    )


def write(path: Path, numbers: Sequence[int]) -> None:
    """Write a file with made-up rows, by which Sottovoce tests that each row becomes a record by itself.

    Rows with numbers from EXTREMES on are far away, or at 0.
    """
    lines = []
    for number in numbers:
        random = np.random.default_rng(number)
        ring, angle = number % 2, random.uniform(0, 2 * np.pi)
        radius = 0.7 + 0.7 * ring + 0.1 * random.standard_normal()
        if number >= EXTREMES:
            radius = 1e9 * (number - EXTREMES)
        lines.append(f"{radius * np.cos(angle):.6f},{radius * np.sin(angle):.6f},{ring}\n")
    path.write_text("".join(lines), encoding="utf-8")


KIND = DataKind("two-rings:/data/points.txt", load, options=("delimiter",), write=write)

if __name__ == "__main__":
    write(Path(sys.argv[1]), range(int(sys.argv[2])))
