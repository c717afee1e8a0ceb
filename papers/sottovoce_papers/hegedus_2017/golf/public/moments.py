"""Sums over published records, each debiased by its perturbation scheme, and their packed form for push-sum."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from sottovoce.plugin import Moments, Perturbation, PublishedRecord, Scheme, ridge, scheme

_LARGEST = 16.0
"""Typical magnitude of the largest value that one device adds; a numerator can store values 65,000 times larger."""

_RECORDS_PER_FEATURE = 100
"""Records per feature assumed in the `ridge` penalty, since push-sum does not reveal the actual number."""


def sum_moments(records: Sequence[PublishedRecord]) -> Moments:
    """Return the sums over one or more records, each debiased according to its perturbation scheme."""
    groups: dict[Perturbation, list[NDArray[np.int64]]] = {}
    for record in records:
        groups.setdefault(record.perturbation, []).append(record.values)
    parts = [build_scheme(perturbation).moments(np.stack(values)) for perturbation, values in groups.items()]
    return sum(parts[1:], parts[0])


def subtract_records(moments: Moments, removed: Sequence[PublishedRecord]) -> Moments:
    """Return the sums without one or more of the records that they include."""
    difference = sum_moments(removed)
    return moments + Moments(-difference.first, -difference.second, -difference.count)


@lru_cache(maxsize=64)
def build_scheme(perturbation: Perturbation) -> Scheme:
    """Return the scheme that a record was perturbed with."""
    return scheme(perturbation.scheme, perturbation.features, perturbation.classes, perturbation.epsilon)


@dataclass(frozen=True, slots=True)
class PackedMoments:
    """Packs moments into rows by a public linear map, and fits a model to a mean row.

    Attributes:
        scheme: the perturbation scheme, with d features and `copies` copies.
        each: the maximum number of records per device.
    """

    scheme: Scheme
    each: int

    @property
    def size(self) -> int:
        """The length P of a row: copies · d for Σ y⁽ᵏ⁾x, d (d + 1)/2 for Σ xxᵀ, and 1 for the count."""
        features = self.scheme.features
        return self.scheme.copies * features + features * (features + 1) // 2 + 1

    @property
    def scale(self) -> float:
        """The power of two by which each value is multiplied."""
        return 2.0 ** -math.ceil(math.log2(self.each * (1 + self.scheme.error) / _LARGEST))

    def pack(self, moments: Moments) -> NDArray[np.float64]:
        """Return the moments as a row, float64[size]."""
        upper = moments.second[_upper_triangle(self.scheme.features)]
        row: NDArray[np.float64] = np.concatenate([moments.first.ravel(), upper, [moments.count]]) * self.scale
        return row

    def model(self, mean: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the fleet's ridge model, float64[copies · d], from the devices' mean row; 0 without records.

        Args:
            mean: the mean row, float64[size].
        """
        copies, features = self.scheme.copies, self.scheme.features
        count = float(mean[-1])
        if count <= 0:
            return np.zeros(copies * features)
        records = _RECORDS_PER_FEATURE * features
        first, upper = np.split(mean[:-1] * (records / count), [copies * features])
        second = np.zeros((features, features))
        second[_upper_triangle(features)] = upper
        second += np.triu(second, 1).T
        return ridge(Moments(first.reshape(copies, features), second, records)).ravel()


@lru_cache(maxsize=4)
def _upper_triangle(features: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    rows, columns = np.triu_indices(features)
    return rows, columns
