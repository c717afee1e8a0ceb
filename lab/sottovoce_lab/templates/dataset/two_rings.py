"""Example of your own data kind: `two-rings#records=N`, points of two classes on two rings."""

from collections.abc import Mapping

import numpy as np
from sottovoce.data import DataSet, Records, uniform_bounds
from sottovoce.data.spec import DataKind


def load(options: Mapping[str, str]) -> DataSet:
    """Return the records: features float64[n, 3], clipped to -2 … 2, and labels int64[n]."""
    count = int(options.get("records", "2000"))
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, count)
    angle, radius = rng.uniform(0, 2 * np.pi, count), 0.7 + 0.7 * labels + 0.1 * rng.standard_normal(count)
    points = np.column_stack([radius * np.cos(angle), radius * np.sin(angle), radius**2 - 1]).clip(-2, 2)
    return DataSet("two-rings", Records(points, labels), 2, uniform_bounds(-2.0, 2.0, 3, "two-rings"), None)


KIND = DataKind("two-rings#records=2000", load, has_path=False, options=("records",))
