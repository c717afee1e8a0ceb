"""Measure a fleet's models on random devices, with test records that no device has."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sottovoce.kernels.linear import OneVsAll

from sottovoce_lab.experiments.fleet import Fleet
from sottovoce_lab.testbed.measure import Metrics

_CURVE_RECORDS = 2000
_MAX_SCORES = 2**24


@dataclass(frozen=True, slots=True)
class Spread(Metrics):
    """Metrics over several models, with their number and the standard deviation of their accuracy."""

    accuracy_std: float
    models: int


class Meter:
    """Measures one-vs-all models on a fleet's test records.

    Args:
        fleet: the fleet whose test records are used.
        generator: selects the records, at most 2,000, for measurements during the run.
    """

    def __init__(self, fleet: Fleet, generator: np.random.Generator) -> None:
        self._model = OneVsAll(fleet.test.features.shape[1], fleet.classes)
        self._features = fleet.normalise(fleet.test.features)
        self._labels = fleet.test.labels
        self._sample = np.sort(generator.permutation(len(self._labels))[:_CURVE_RECORDS])

    def measure_sample(self, weights: NDArray[np.float64], model_index: NDArray[np.int64]) -> Spread:
        """Measure models on at most 2,000 test records; see `measure_all`."""
        return self._measure(weights, model_index, self._sample)

    def measure_all(self, weights: NDArray[np.float64], model_index: NDArray[np.int64]) -> Spread:
        """Measure models on all test records.

        Args:
            weights: the distinct models, float64[m, k, d].
            model_index: index of each measured device's model, int64[devices].
        """
        return self._measure(weights, model_index, np.arange(len(self._labels)))

    def _measure(self, weights: NDArray[np.float64], model_index: NDArray[np.int64], rows: NDArray[np.int64]) -> Spread:
        parameters = weights.reshape(len(weights), -1)
        features, labels = self._features[rows], self._labels[rows]
        step = max(1, _MAX_SCORES // (len(rows) * weights.shape[1]))
        accuracy, losses = np.empty(len(weights)), np.empty(len(weights))
        for start in range(0, len(weights), step):
            part = slice(start, start + step)
            accuracy[part] = (self._model.predict(parameters[part], features) == labels).mean(axis=1)
            losses[part] = self._model.loss(parameters[part], features, labels)
        accuracy, losses = accuracy[model_index], losses[model_index]
        return Spread(
            accuracy_mean=float(accuracy.mean()),
            accuracy_min=float(accuracy.min()),
            accuracy_max=float(accuracy.max()),
            loss_mean=float(losses.mean()),
            accuracy_std=float(accuracy.std()),
            models=len(accuracy),
        )
