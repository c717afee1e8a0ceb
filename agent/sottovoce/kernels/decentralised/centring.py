"""Centred coordinates: a public change of variables that subtracts a shared mean from every record.

A transformed record is v = [x, b], where x has at most length 1 and b is the constant bias. Its centred copy is
v' = [c (x - m), b], where m is public and c = 1/√(1 - |m|²) gives the copies the length that records of mean square 1
have left. With v' = A v, a linear model W' for centred records is the model W = Aᵀ W' for the records themselves. A
model, its predictions and its export are therefore always one matrix W; only the vault sees centred records.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

LONGEST_MEAN = 0.95
"""Length to which a mean is shortened, so that c is at most 3.2, whatever a dishonest device has added to the mean."""


@dataclass(frozen=True, slots=True)
class Coordinates:
    """The coordinates of linear models for records that are centred by a public mean.

    Attributes:
        mean: float64[D], m, of length below 1.
        bias: b, the constant in a record's last column.
    """

    mean: Values
    bias: float

    @property
    def scale(self) -> float:
        """The factor c on a centred record."""
        return 1.0 / math.sqrt(1.0 - float(self.mean @ self.mean))

    def center_records(self, features: Values) -> Values:
        """Return centred copies of records, float64[n, D + 1]. Each copy depends, to the last bit, on its record alone.

        A record that the transform has set to 0, because its numbers are too large, stays 0.
        """
        centred = features.astype(np.float64)  # a copy
        centred[:, :-1] -= (features[:, -1:] / self.bias) * self.mean
        centred[:, :-1] *= self.scale
        return centred

    def to_centred(self, models: Values) -> Values:
        """Return the models W' of models W, both float64[..., (D + 1) · classes]."""
        weights = self._tensors(models).copy()
        weights[..., -1, :] += np.einsum("d,...dk->...k", self.mean, weights[..., :-1, :]) / self.bias
        weights[..., :-1, :] /= self.scale
        return weights.reshape(models.shape)

    def from_centred(self, models: Values) -> Values:
        """Return the models W of models W', both float64[..., (D + 1) · classes]."""
        weights = self._tensors(models).copy()
        weights[..., :-1, :] *= self.scale
        weights[..., -1, :] -= np.einsum("d,...dk->...k", self.mean, weights[..., :-1, :]) / self.bias
        return weights.reshape(models.shape)

    def _tensors(self, models: Values) -> Values:
        return np.asarray(models, dtype=np.float64).reshape(*models.shape[:-1], len(self.mean) + 1, -1)


def shrink_mean(total: Values, bias: float, noise: float) -> Values:
    """Return the mean of records from a noisy sum, with each value shrunk by the share of noise in it, float64[D].

    The result is the same on every machine, to the last bit.

    Each value m is multiplied by 1 - s²/m², or by 0 if the variance s² of its noise exceeds m². If the sum's count of
    records is lost in noise, the mean is 0.

    Args:
        total: float64[D + 1], the sum of records in any unit; its last value is b times their number.
        bias: b.
        noise: the standard deviation of the noise on each value, in the same unit.
    """
    if total[-1] <= _MIN_COUNT * noise:
        return np.zeros(len(total) - 1)
    records = total[-1] / bias
    mean, variance = total[:-1] / records, (noise / records) ** 2
    squares = mean**2
    mean = mean * np.maximum(0.0, 1.0 - np.divide(variance, squares, out=np.ones_like(squares), where=squares > 0))
    length = math.sqrt(math.fsum(mean**2))
    shortened: Values = mean * min(1.0, LONGEST_MEAN / max(length, LONGEST_MEAN))
    return shortened


_MIN_COUNT = 3.0  # standard deviations of noise below which a count says nothing
