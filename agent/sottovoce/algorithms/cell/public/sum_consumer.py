"""Consumers of secure sums, which turn the sums into a mean or into a model trained by gradient descent."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sottovoce.algorithms.steps.public.descent import UNIT, Schedule, rate, round_and_clip
from sottovoce.kernels.profile import Profile

Numerator = NDArray[np.int64]


class SumConsumer(Protocol):
    """Public integer arithmetic that turns sums into a model and gives the same result on every member.

    Attributes:
        size: the length of a sum, P.
        rounds: the number of planned sums.
        bytes_per_element: maps the roster size to the number of bytes per element of a masked vector.
    """

    size: int
    rounds: int
    bytes_per_element: Callable[[int], int]

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


class MeanConsumer:
    """A consumer that computes the mean over the devices from a single sum.

    Args:
        profile: selects the part of each device's vector that is summed.
        grid_step: the grid step of the sum.
        bytes_per_element: maps the roster size to the number of bytes per element of a masked vector; see SumConsumer.
    """

    rounds = 1

    def __init__(self, profile: Profile, grid_step: float, bytes_per_element: Callable[[int], int]) -> None:
        self.size = profile.size
        self.bytes_per_element = bytes_per_element
        self._profile = profile
        self._grid_step = grid_step

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
        return round_and_clip(total * (self._grid_step / members * UNIT))


class DescentConsumer:
    """A consumer that runs DP-SGD over all members' records: each sum adds the clipped gradients at one model.

    Args:
        schedule: provides K, γ_t and B, the expected number of records per device.
        initial: float64[P], the public initial parameters.
        grid_step: the grid step of the sum.
        bytes_per_element: maps the roster size to the number of bytes per element of a masked vector; see SumConsumer.
    """

    def __init__(
        self,
        schedule: Schedule,
        initial: NDArray[np.float64],
        grid_step: float,
        bytes_per_element: Callable[[int], int],
    ) -> None:
        self.size, self.rounds, self.bytes_per_element = schedule.size, schedule.steps, bytes_per_element
        self._schedule, self._grid_step = schedule, grid_step
        self._start = round_and_clip(initial * UNIT)

    def initial_state(self) -> Numerator | None:
        """Return the public initial value."""
        return self._start.copy()

    def point(self, numerator: Numerator | None) -> bytes:
        """Return the current model as bytes, float64, little-endian."""
        return ((self._start if numerator is None else numerator) / UNIT).astype("<f8").tobytes()

    def model(self, numerator: Numerator) -> NDArray[np.float64]:
        """Return the model, float64[P]."""
        return numerator / UNIT

    def value_after_sum(
        self, numerator: Numerator | None, slot: int, total: NDArray[np.int64], members: int
    ) -> Numerator:
        """Return the numerator after a gradient step along the sum."""
        previous = self._start if numerator is None else numerator
        factor = rate(self._schedule, slot) / (self._schedule.expected_records * members)
        return round_and_clip(previous - np.rint(total * (factor * self._grid_step * UNIT)))
