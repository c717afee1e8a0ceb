"""Fit another model to records that are already published; this is post-processing and has no further privacy cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray
from sottovoce.plugin import UPDATE_RULES, DataError, Perturbation, PublishedRecord, ridge

from sottovoce_papers.hegedus_2017.golf.public.moments import build_scheme, sum_moments

_DECODED_ROWS = 256


@dataclass(frozen=True, slots=True)
class FittedModel:
    """A fitted model, with facts about the records that it was fitted to.

    Attributes:
        weights: float64[copies, d], for transformed features.
        features: number of features, d.
        classes: number of classes, c.
        records: number of published records.
        owners: number of devices that published the records.
        epsilon: largest ε charged for one of these records; None if one of them has no ε.
    """

    weights: NDArray[np.float64]
    features: int
    classes: int
    records: int
    owners: int
    epsilon: float | None


def fit(records: Sequence[PublishedRecord], model: str, epochs: int = 1) -> FittedModel:
    """Fit `ridge` to the debiased sums over the records, or train `pegasos` or `logistic` sequentially on the records.

    Args:
        records: records with verified provenance.
        model: `ridge`, `pegasos` or `logistic`.
        epochs: number of passes of `pegasos` or `logistic` over all records.

    Raises:
        DataError: if there are no records, or they differ in their number of features or classes.
    """
    if not records:
        raise DataError(
            "there are no published records to learn from yet; let the agent run until it has collected some"
        )
    shapes = {(record.perturbation.features, record.perturbation.classes) for record in records}
    if len(shapes) > 1:
        raise DataError(
            "the published records have different features or classes; do not mix records from different fleets"
        )
    ((features, classes),) = shapes
    groups = _group_by_perturbation(records)
    weights = ridge(sum_moments(records)) if model == "ridge" else _train_sequentially(groups, model, epochs)
    epsilons = [perturbation.epsilon for perturbation, _ in groups if perturbation.epsilon is not None]
    return FittedModel(
        weights,
        features,
        classes,
        len(records),
        len({record.owner for record in records}),
        max(epsilons) if len(epsilons) == len(groups) else None,
    )


def _group_by_perturbation(records: Sequence[PublishedRecord]) -> list[tuple[Perturbation, NDArray[np.int64]]]:
    def key(record: PublishedRecord) -> str:
        return repr(record.perturbation)

    groups = [list(group) for _, group in groupby(sorted(records, key=key), key)]
    return [(group[0].perturbation, np.stack([record.values for record in group])) for group in groups]


def _train_sequentially(
    groups: list[tuple[Perturbation, NDArray[np.int64]]], model: str, epochs: int
) -> NDArray[np.float64]:
    """Return the weights after sequential passes over the records, in a random but reproducible order."""
    rule, initial_scheme = UPDATE_RULES[model], build_scheme(groups[0][0])
    weights: NDArray[np.float64] = np.zeros((1, initial_scheme.copies, initial_scheme.features))
    steps = np.zeros(1, dtype=np.int64)
    generator = np.random.Generator(np.random.PCG64(0))
    for _ in range(epochs):
        for perturbation, values in groups:
            shuffled = values[generator.permutation(len(values))]
            for start in range(0, len(shuffled), _DECODED_ROWS):
                for record in build_scheme(perturbation).decode(shuffled[start : start + _DECODED_ROWS]):
                    weights, steps = rule(weights, steps, record[np.newaxis])
    fitted_weights: NDArray[np.float64] = weights[0]
    return fitted_weights
