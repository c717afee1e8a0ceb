"""Compute sums over published records, each debiased according to its perturbation scheme."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sottovoce.learners.published_records import Perturbation, PublishedRecord
from sottovoce.perturbation import Moments, Scheme, scheme


def sum_moments(records: Sequence[PublishedRecord]) -> Moments:
    """Return the sums over one or more records, each debiased according to its perturbation scheme."""
    groups: dict[Perturbation, list[NDArray[np.int64]]] = {}
    for record in records:
        groups.setdefault(record.perturbation, []).append(record.values)
    parts = [build_scheme(perturbation).moments(np.stack(values)) for perturbation, values in groups.items()]
    return sum(parts[1:], parts[0])


@lru_cache(maxsize=64)
def build_scheme(perturbation: Perturbation) -> Scheme:
    """Return the scheme that a record was perturbed with."""
    return scheme(perturbation.scheme, perturbation.features, perturbation.classes, perturbation.epsilon)
