"""Prediction errors of regression models, and of baselines that need no learning."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from sottovoce.data import Records, Target
from sottovoce.kernels.least_squares import LeastSquares

from sottovoce_lab.testbed.measure import CURVE_MODELS, CURVE_RECORDS, PredictionErrors

_OWN_MODELS = 24  # number of devices whose own models are measured
_CHUNK = 2**20  # maximum number of predictions computed at a time

Floats = NDArray[np.float64]


class Regression(Protocol):
    """A model that predicts numbers."""

    def values(self, parameters: Floats, features: Floats) -> Floats:
        """Return the targets, float64[N, M], that parameters float64[N, P] predict for features float64[M, d]."""
        ...


class PredictionMeter:
    """Measures the prediction errors of regression models.

    Args:
        model: the model whose parameters are measured.
        test: records that no agent holds.
        target: description of the last column, which is the number to predict; None if it is not declared.
        training: all agents' records, to which the exact solution is fitted.
        seed: seed for the sample of agents and records to measure while a large fleet runs.
    """

    def __init__(
        self, model: Regression, test: Records, target: Target | None, training: Sequence[Records], seed: int
    ) -> None:
        self._model, self._linear = model, LeastSquares(test.features.shape[1])
        self._test = test.features
        self._target = target
        self._exact = least_squares(training, self._linear.size)[np.newaxis]
        with_records = [records for records in training if len(records)]
        sample = with_records[:: max(1, len(with_records) // _OWN_MODELS)][:_OWN_MODELS]
        self._own = [least_squares([records], self._linear.size) for records in sample]
        self._random = np.random.default_rng(seed)
        self._sample = self._random.permutation(len(test))[:CURVE_RECORDS]

    def measure_sample(self, models: Sequence[Floats]) -> PredictionErrors:
        """Measure the errors of up to 100 models on up to 2,000 records, for a point on a run's curve."""
        if len(models) > CURVE_MODELS:
            models = [models[i] for i in self._random.permutation(len(models))[:CURVE_MODELS]]
        return self._measure(models, self._sample)

    def measure_all(self, models: Sequence[Floats]) -> PredictionErrors:
        """Measure the errors of all models on all records."""
        return self._measure(models, np.arange(len(self._test)))

    def _measure(self, models: Sequence[Floats], rows: NDArray[np.int64]) -> PredictionErrors:
        stack = np.stack(models)
        mae, squared, loss = self._errors(self._model, stack, rows)
        rmse = np.sqrt(squared)
        return PredictionErrors(
            loss_mean=float(loss.mean()),
            mae_mean=float(mae.mean()),
            mae_max=float(mae.max()),
            rmse_mean=float(rmse.mean()),
            rmse_max=float(rmse.max()),
            mae_least_squares=float(self._errors(self._linear, self._exact, rows)[0][0]),
            mae_own_data=float(self._errors(self._linear, np.stack(self._own), rows)[0].mean()) if self._own else None,
            mae_persistence=self._baseline("persistence", rows),
            mae_same_time_yesterday=self._baseline("same_time_yesterday", rows),
            unit=None if self._target is None else self._target.unit,
        )

    def _errors(self, model: Regression, stack: Floats, rows: NDArray[np.int64]) -> tuple[Floats, Floats, Floats]:
        """Return each parameter vector's mean absolute error, mean squared error and loss, float64[N] each."""
        sums: Floats = np.zeros((3, len(stack)))
        size = max(1, _CHUNK // len(stack))
        for start in range(0, len(rows), size):
            records = self._test[rows[start : start + size]]
            predicted, true = model.values(stack, records), records[np.newaxis, :, -1]
            errors: Floats = self._in_units(records, predicted) - self._in_units(records, true)
            sums[0] += np.abs(errors).sum(axis=1)
            sums[1] += (errors**2).sum(axis=1)
            sums[2] += ((predicted - true) ** 2).sum(axis=1) / 2
        means = sums / max(1, len(rows))
        return means[0], means[1], means[2]

    def _baseline(self, name: str, rows: NDArray[np.int64]) -> float | None:
        if self._target is None or name not in self._target.baselines:
            return None
        records = self._test[rows]
        true = self._in_units(records, records[np.newaxis, :, -1])[0]
        return float(np.abs(self._target.baselines[name][rows] - true).mean())

    def _in_units(self, records: Floats, targets: Floats) -> Floats:
        return targets if self._target is None else self._target.convert(records, targets)


def least_squares(device_records: Sequence[Records], size: int) -> Floats:
    """Return the shortest weight vector w, float64[size], that minimises Σ (w'x - y)² over all records."""
    gram, moment = np.zeros((size, size)), np.zeros(size)
    for records in device_records:
        x, y = records.features[:, :-1], records.features[:, -1]
        gram += x.T @ x
        moment += x.T @ y
    return np.asarray(np.linalg.lstsq(gram, moment, rcond=None)[0], dtype=np.float64)
