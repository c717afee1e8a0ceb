"""Data generated from a seed, for simulations with one record per device and fleets of any size."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from sottovoce.data.bounds import uniform_bounds
from sottovoce.data.dataset import DataSet, Table
from sottovoce.errors import DataError

_TEST_RECORDS = 2000
_SEPARATION = 3.0


def synthetic(features: int, classes: int, count: int, seed: int) -> DataSet:
    """Return Gaussian classes with means on the sphere of radius 3 around 0 and unit variance in every direction.

    Args:
        features: number of features d, at least 1.
        classes: number of classes c, at least 2.
        count: number of training records, at least 1.
        seed: seed for all random draws, non-negative.

    Returns:
        `count` records, and 2,000 more as the test split, with class sizes as equal as possible.

    Raises:
        DataError: if a value is out of range.
    """
    return _synthetic_table(features, classes, count, seed).dataset()


def _synthetic_table(features: int, classes: int, count: int, seed: int) -> Table:
    if features < 1 or classes < 2 or count < 1:
        raise DataError("Synthetic data requires at least 1 feature, 2 classes and 1 record. Increase these options.")
    generator = np.random.Generator(np.random.PCG64(seed))
    means = generator.standard_normal((classes, features))
    means *= _SEPARATION / np.sqrt((means * means).sum(axis=1, keepdims=True))
    parts = [_draw_rows(means, size, generator) for size in (count, _TEST_RECORDS)]
    return Table(name="synthetic", rows=parts[0], classes=classes, test=parts[1], origin="synthetic")


def from_options(options: Mapping[str, str]) -> Table:
    """Return the rows of `synthetic` for the options of a data SPEC: features, classes, records and seed.

    Raises:
        DataError: if an option is not an integer or is out of range.
    """
    numbers = {"features": 20, "classes": 2, "records": 2000, "seed": 0}
    for option, text in options.items():
        if not text.isdecimal():
            raise DataError(f"Option {option!r} of data kind 'synthetic' must be a non-negative integer, not {text!r}.")
        numbers[option] = int(text)
    return _synthetic_table(numbers["features"], numbers["classes"], numbers["records"], numbers["seed"])


def two_gaussians(count: int, seed: int) -> DataSet:
    """Return the two-dimensional data set of Hegedűs & Jelasity 2017: means (0, 10) and (10, 0), standard deviation 1.

    See `synthetic`. Both features have the declared bounds -6 to 16, which contain nearly all records.
    """
    if count < 1:
        raise DataError("Two Gaussians require at least 1 record. Increase data.records.")
    generator = np.random.Generator(np.random.PCG64(seed))
    means = np.array([[0.0, 10.0], [10.0, 0.0]])
    parts = [_draw_rows(means, size, generator) for size in (count, _TEST_RECORDS)]
    bounds = uniform_bounds(-6.0, 16.0, 2, "two-gaussians")
    table = Table(name="two-gaussians", rows=parts[0], classes=2, bounds=bounds, test=parts[1], origin="two-gaussians")
    return table.dataset()


def _draw_rows(
    means: NDArray[np.float64], count: int, generator: "np.random.Generator"
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    labels = generator.permutation(np.arange(count) % len(means))
    features = generator.standard_normal((count, means.shape[1]))
    for label, mean in enumerate(means):
        features[labels == label] += mean
    return features, labels
