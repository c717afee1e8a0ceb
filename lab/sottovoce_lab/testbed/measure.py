"""Quality of the public models, measured by the harness on records that no agent holds."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sottovoce.data import Records
from sottovoce.kernels import Model

CURVE_MODELS = 100
CURVE_RECORDS = 2000
"""Maximum number of records on which a point of a run's curve is measured."""

_CHUNK = 64


@dataclass(frozen=True, slots=True)
class Measures:
    """Accuracy over agents, and the mean loss in nats."""

    accuracy_mean: float
    accuracy_min: float
    accuracy_max: float
    loss_mean: float


@dataclass(frozen=True, slots=True)
class Errors:
    """Distances from the true mean of all devices' vectors, in the vectors' unit. Not for classification.

    Attributes:
        loss_mean: half the squared length of the error, over agents.
        rmse_mean: root mean squared error of a number, over agents.
        rmse_max: largest root mean squared error of any agent.
        mae_mean: mean absolute error of a number, over agents.
        rmse_theory: σ/√n, the error of each number from the noise of n devices alone.
        rmse_clip: the error without noise: from the clip, and from harmonics that are left out.
        rmse_prior: RMSE of the public prior alone, or of zeros without a prior: the result of a fleet that sends
            nothing.
        mean_size: mean size of the numbers of the true mean, as a scale for all other attributes.
    """

    loss_mean: float
    rmse_mean: float
    rmse_max: float
    mae_mean: float
    rmse_theory: float
    rmse_clip: float
    rmse_prior: float
    mean_size: float
    accuracy_mean: None = None
    accuracy_min: None = None
    accuracy_max: None = None


@dataclass(frozen=True, slots=True)
class PredictionErrors:
    """Distances of predicted numbers from the true numbers, in `unit`. Not for classification.

    Attributes:
        loss_mean: half the mean squared error in the model's own scale, over agents.
        mae_mean: mean absolute error, over agents.
        mae_max: largest mean absolute error of any agent.
        rmse_mean: root mean squared error, over agents.
        rmse_max: largest root mean squared error of any agent.
        mae_least_squares: MAE of the exact least-squares fit to all agents' records together.
        mae_persistence: MAE of "as in the last half hour", if records are of a forecast; else None.
        mae_same_time_yesterday: MAE of "as a day ago", if records are of a forecast; else None.
        unit: unit of all errors; None for the target's own.
    """

    loss_mean: float
    mae_mean: float
    mae_max: float
    rmse_mean: float
    rmse_max: float
    mae_least_squares: float
    mae_persistence: float | None
    mae_same_time_yesterday: float | None
    unit: str | None
    accuracy_mean: None = None
    accuracy_min: None = None
    accuracy_max: None = None


Quality = Measures | Errors | PredictionErrors
"""Measures of all models at one moment."""


def majority(test: Records) -> float:
    """Return the accuracy of always predicting the most frequent class; 0 without records."""
    return float(np.bincount(test.labels).max() / len(test)) if len(test) else 0.0


class Meter:
    """Meter of models on the test set.

    Args:
        kernel: the model.
        test: records that no agent holds.
        seed: seed of the sample of agents and records measured while a large fleet runs.
    """

    def __init__(self, kernel: Model, test: Records, seed: int) -> None:
        self._kernel = kernel
        self._test = test
        self._random = np.random.default_rng(seed)
        rows = self._random.permutation(len(test))[:CURVE_RECORDS]
        self._sample = test.at(rows)

    @property
    def majority(self) -> float:
        """Accuracy of always predicting the most frequent class of the test set."""
        return majority(self._test)

    def quick(self, models: Sequence[NDArray[np.float64]]) -> Measures:
        """Measure accuracy on at most 100 models and 2,000 records, for the curve of a run."""
        if len(models) > CURVE_MODELS:
            models = [models[i] for i in self._random.permutation(len(models))[:CURVE_MODELS]]
        return self._measure(models, self._sample)

    def final(self, models: Sequence[NDArray[np.float64]]) -> Measures:
        """Measure accuracy on all models and all records."""
        return self._measure(models, self._test)

    def _measure(self, models: Sequence[NDArray[np.float64]], records: Records) -> Measures:
        accuracies, losses = [], []
        for start in range(0, len(models), _CHUNK):
            stack = np.stack(models[start : start + _CHUNK])
            accuracies.append((self._kernel.predict(stack, records.features) == records.labels).mean(axis=1))
            losses.append(self._kernel.loss(stack, records.features, records.labels))
        accuracy = np.concatenate(accuracies)
        return Measures(
            float(accuracy.mean()), float(accuracy.min()), float(accuracy.max()), float(np.concatenate(losses).mean())
        )
