"""Consumers of secure sums, which turn the sums into a mean or into a model trained by gradient descent."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sottovoce.algorithms.steps.public.descent import UNIT, Schedule, rate, round_and_clip
from sottovoce.kernels.decentralised.centring import Coordinates, shrink_mean

Numerator = NDArray[np.int64]


class SumConsumer(Protocol):
    """Public integer arithmetic that turns sums into a model and gives the same result on every member.

    Attributes:
        size: the length of a sum, P.
        rounds: the number of planned sums.
        bytes_per_element: maps the roster size to the number of bytes per element of a masked vector.
        largest_value: maps the roster size and the number of survivors to the largest magnitude of a value in a sum of
            honest members, in grid steps.
        grid_step: the grid step of the sum, a power of two.
        noise_share: maps the roster size to σ of the noise that each member adds, in grid steps, if a sum is a result
            in its own right; None if it is a step on the way to a model.
    """

    size: int
    rounds: int
    bytes_per_element: Callable[[int], int]
    largest_value: Callable[[int, int], int]
    grid_step: float
    noise_share: Callable[[int], int] | None

    def initial_state(self) -> Numerator | None:
        """Return the numerator before the first sum, int64[P] in units of 2^-40, or None if there is none."""
        ...

    def point(self, numerator: Numerator | None) -> bytes:
        """Return the point at which the next sum is computed, float64, little-endian."""
        ...

    def model(self, numerator: Numerator) -> NDArray[np.float64]:
        """Return the model to publish for this value."""
        ...

    def value_after_sum(
        self, numerator: Numerator | None, slot: int, total: NDArray[np.int64], members: int
    ) -> Numerator:
        """Return the numerator after a sum over `members` devices, int64[P] in units of 2^-40."""
        ...


class Coefficients(Protocol):
    """The public map from the mean of the devices' coefficients to the vector that the fleet publishes."""

    @property
    def size(self) -> int:
        """The number of coefficients, P."""
        ...

    def vector(self, coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the vector for these coefficients."""
        ...


class MeanConsumer:
    """A consumer that computes the mean over the devices from a single sum.

    Args:
        profile: maps the sum to the vector to publish.
        grid_step: the grid step of the sum.
        bytes_per_element: maps the roster size to the number of bytes per element of a masked vector; see SumConsumer.
        largest_value: see SumConsumer.
        noise_share: maps the roster size to σ of the noise that each member adds; see SumConsumer.
    """

    rounds = 1

    def __init__(
        self,
        profile: Coefficients,
        grid_step: float,
        bytes_per_element: Callable[[int], int],
        largest_value: Callable[[int, int], int],
        noise_share: Callable[[int], int],
    ) -> None:
        self.size = profile.size
        self.bytes_per_element, self.largest_value = bytes_per_element, largest_value
        self.noise_share: Callable[[int], int] | None = noise_share
        self._profile = profile
        self.grid_step = grid_step

    def initial_state(self) -> Numerator | None:
        """Return None, because there is no mean before the sum."""
        return None

    def point(self, numerator: Numerator | None) -> bytes:
        """Return no bytes, because the sum for a mean does not depend on a point."""
        return b""

    def model(self, numerator: Numerator) -> NDArray[np.float64]:
        """Return the vector with the mean coefficients, float64[d]."""
        return self._profile.vector(numerator / UNIT)

    def value_after_sum(
        self, numerator: Numerator | None, slot: int, total: NDArray[np.int64], members: int
    ) -> Numerator:
        """Return the mean coefficients, int64[P] in units of 2^-40."""
        return round_and_clip(total * (self.grid_step / members * UNIT))


@dataclass(frozen=True, slots=True)
class CellMean:
    """How the first sum of a cell, over the records, becomes the mean by which they are centred.

    Attributes:
        columns: the number of columns of a transformed record, D + 1.
        bias: the constant b in the last column.
        length: the largest norm of a record, as a multiple of the clip norm to which the vault scales it.
        noise: maps the roster size to the standard deviation of the noise on each value of a sum.
    """

    columns: int
    bias: float
    length: float
    noise: Callable[[int], float]

    def derive(self, total: NDArray[np.float64], members: int) -> NDArray[np.float64]:
        """Return the mean, float64[D], from a sum over `members` devices, float64[D + 1]."""
        return shrink_mean(total * self.length, self.bias, self.noise(members) * self.length)


class DescentConsumer:
    """A consumer that runs DP-SGD over all members' records: each sum adds the clipped gradients at one model.

    If the members centre their records, the first sum is over the records. The numerator, and each sum, then has D + 1
    further values: in the numerator, the mean m, and 1 once m is known; in a sum of gradients, only noise. The
    numerator's model is for centred records, so that every member computes the same integers.

    Args:
        schedule: provides K, γ_t and B, the expected number of records per device.
        initial: float64[P], the public initial parameters; 0 if records are centred.
        grid_step: the grid step of the sum.
        bytes_per_element: maps the roster size to the number of bytes per element of a masked vector; see SumConsumer.
        largest_value: see SumConsumer.
        mean: how the members centre their records; None if they do not.
    """

    noise_share: Callable[[int], int] | None = None

    def __init__(
        self,
        schedule: Schedule,
        initial: NDArray[np.float64],
        grid_step: float,
        bytes_per_element: Callable[[int], int],
        largest_value: Callable[[int, int], int],
        mean: CellMean | None = None,
    ) -> None:
        self._first = 0 if mean is None else 1
        columns = 0 if mean is None else mean.columns
        self.size, self.rounds = schedule.size + columns, schedule.steps + self._first
        self.bytes_per_element, self.largest_value, self._mean = bytes_per_element, largest_value, mean
        self._schedule, self.grid_step = schedule, grid_step
        self._start = np.append(round_and_clip(initial * UNIT), np.zeros(columns, dtype=np.int64))

    def initial_state(self) -> Numerator | None:
        """Return the public initial value."""
        return self._start.copy()

    def point(self, numerator: Numerator | None) -> bytes:
        """Return the current model as bytes, float64, little-endian."""
        return ((self._start if numerator is None else numerator) / UNIT).astype("<f8").tobytes()

    def model(self, numerator: Numerator) -> NDArray[np.float64]:
        """Return the model for the records themselves, float64[P]."""
        size = self._schedule.size
        model: NDArray[np.float64] = numerator[:size] / UNIT
        if self._mean is None or not numerator[-1]:
            return model
        return Coordinates(numerator[size:-1] / UNIT, self._mean.bias).from_centred(model)

    def value_after_sum(
        self, numerator: Numerator | None, slot: int, total: NDArray[np.int64], members: int
    ) -> Numerator:
        """Return the numerator with the mean after the sum of records, or after a gradient step along the sum."""
        previous, size = self._start if numerator is None else numerator, self._schedule.size
        if self._mean is not None and slot == 0:
            mean = self._mean.derive(total[: self._mean.columns] * np.float64(self.grid_step), members)
            return np.concatenate([previous[:size], round_and_clip(np.append(mean, 1.0) * UNIT)])
        factor = rate(self._schedule, slot - self._first) / (self._schedule.expected_records * members)
        model = round_and_clip(previous[:size] - np.rint(total[:size] * (factor * self.grid_step * UNIT)))
        return np.append(model, previous[size:])
