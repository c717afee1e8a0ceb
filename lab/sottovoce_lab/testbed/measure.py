"""The quality of published models, measured by the harness on records that no agent holds."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sottovoce.data import Records
from sottovoce.kernels import Model

CURVE_MODELS = 100
CURVE_RECORDS = 2000
"""Maximum number of records for measuring a point on a run's curve."""

_CHUNK = 64


@dataclass(frozen=True, slots=True)
class Metrics:
    """Mean, minimum and maximum accuracy over agents, and their mean loss in nats."""

    accuracy_mean: float
    accuracy_min: float
    accuracy_max: float
    loss_mean: float


@dataclass(frozen=True, slots=True)
class Errors:
    """Errors relative to the true mean of all devices' vectors, in the vectors' unit. Not for classification.

    Attributes:
        loss_mean: half the squared length of the error, averaged over agents.
        rmse_mean: the root mean squared error per number, averaged over agents.
        rmse_max: the largest root mean squared error of any agent.
        mae_mean: the mean absolute error per number, averaged over agents.
        rmse_theory: σ/√n, the error in each number if the noise of n devices were the only cause.
        rmse_clip: the noise-free error, which comes from clipping and from omitted harmonics.
        rmse_prior: the RMSE of the public prior alone, or of zeros without a prior, as achieved by a fleet that sends
            nothing.
        mean_size: the mean absolute value of the true mean's coordinates, as a scale for all other attributes.
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
    """Errors of predicted numbers, in `unit`. Not for classification.

    Attributes:
        loss_mean: half the mean squared error on the model's own scale, averaged over agents.
        mae_mean: the mean absolute error, averaged over agents.
        mae_max: the largest mean absolute error of any agent.
        rmse_mean: the root mean squared error, averaged over agents.
        rmse_max: the largest root mean squared error of any agent.
        mae_least_squares: the MAE of the exact least-squares fit to all agents' records together.
        mae_own_data: the MAE of the exact least-squares fit to a device's own records, a mean over up to 24 devices;
            None if no device has records.
        mae_persistence: the MAE of predicting the last half hour's value, if the records are for a forecast; else None.
        mae_same_time_yesterday: the MAE of predicting the value a day ago, if the records are for a forecast; else
            None.
        unit: the unit of all errors; None for the target's own unit.
    """

    loss_mean: float
    mae_mean: float
    mae_max: float
    rmse_mean: float
    rmse_max: float
    mae_least_squares: float
    mae_own_data: float | None
    mae_persistence: float | None
    mae_same_time_yesterday: float | None
    unit: str | None
    accuracy_mean: None = None
    accuracy_min: None = None
    accuracy_max: None = None


Quality = Metrics | Errors | PredictionErrors
"""Metrics over all models at one point in a run."""


def majority_accuracy(test: Records) -> float:
    """Return the accuracy of always predicting the most frequent class; 0 without records."""
    return float(np.bincount(test.labels).max() / len(test)) if len(test) else 0.0


class Meter:
    """Measures the accuracy and loss of models on the test set.

    Args:
        kernel: the model.
        test: records that no agent holds.
        seed: seed for the sample of agents and records to measure while a large fleet runs.
    """

    def __init__(self, kernel: Model, test: Records, seed: int) -> None:
        self._kernel = kernel
        self._test = test
        self._random = np.random.default_rng(seed)
        rows = self._random.permutation(len(test))[:CURVE_RECORDS]
        self._sample = test.at(rows)

    @property
    def majority_accuracy(self) -> float:
        """The accuracy of always predicting the most frequent class in the test set."""
        return majority_accuracy(self._test)

    def measure_sample(self, models: Sequence[NDArray[np.float64]]) -> Metrics:
        """Measure up to 100 models on up to 2,000 records, for a point on a run's curve."""
        if len(models) > CURVE_MODELS:
            models = [models[i] for i in self._random.permutation(len(models))[:CURVE_MODELS]]
        return self._measure(models, self._sample)

    def measure_all(self, models: Sequence[NDArray[np.float64]]) -> Metrics:
        """Measure all models on all test records."""
        return self._measure(models, self._test)

    def _measure(self, models: Sequence[NDArray[np.float64]], records: Records) -> Metrics:
        accuracies, losses = [], []
        for start in range(0, len(models), _CHUNK):
            stack = np.stack(models[start : start + _CHUNK])
            accuracies.append((self._kernel.predict(stack, records.features) == records.labels).mean(axis=1))
            losses.append(self._kernel.loss(stack, records.features, records.labels))
        accuracy = np.concatenate(accuracies)
        return Metrics(
            float(accuracy.mean()), float(accuracy.min()), float(accuracy.max()), float(np.concatenate(losses).mean())
        )
