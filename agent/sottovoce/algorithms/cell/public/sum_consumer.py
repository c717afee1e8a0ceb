"""Use of a sum's result: a single mean, or repeated steps of gradient descent."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sottovoce.algorithms.steps.public.descent import UNIT, Schedule, bounded, rate
from sottovoce.kernels.profile import Profile

Numerator = NDArray[np.int64]


class SumConsumer(Protocol):
    """Public integer arithmetic that turns sums into a model, identical on every member.

    Attributes:
        size: length of a sum, P.
        rounds: number of planned sums.
        width: bytes per element of a masked vector, given the size of the roster.
    """

    size: int
    rounds: int
    width: Callable[[int], int]

    def fresh(self) -> Numerator | None:
        """Return the initial value before the first sum, int64[P] in units of 2^-40."""
        ...

    def point(self, numerator: Numerator | None) -> bytes:
        """Return the point of the next sum, float64, little-endian."""
        ...

    def model(self, numerator: Numerator) -> NDArray[np.float64]:
        """Return the published model of the current value."""
        ...

    def value_after_sum(
        self, numerator: Numerator | None, slot: int, total: NDArray[np.int64], members: int
    ) -> Numerator:
        """Value after a sum over a number of devices, int64[P] in grid units."""
        ...


class MeanCourse:
    """Mean over the devices.

    Args:
        profile: the part of each device's vector that is summed.
        step: step of the sum's grid.
        width: see SumConsumer.
    """

    rounds = 1

    def __init__(self, profile: Profile, step: float, width: Callable[[int], int]) -> None:
        self.size, self._profile, self._step, self.width = profile.size, profile, step, width

    def fresh(self) -> Numerator | None:
        """Return None: a mean has no value before its sum."""
        return None

    def point(self, numerator: Numerator | None) -> bytes:
        """Return no bytes: a mean's sum does not depend on a point."""
        del numerator
        return b""

    def model(self, numerator: Numerator) -> NDArray[np.float64]:
        """Return the vector that has the mean coefficients, float64[d]."""
        return self._profile.vector(numerator / UNIT)

    def value_after_sum(
        self, numerator: Numerator | None, slot: int, total: NDArray[np.int64], members: int
    ) -> Numerator:
        """Return the mean coefficients."""
        del numerator, slot
        return bounded(total * (self._step / members * UNIT))


class DescentCourse:
    """DP-SGD over the union of all members' records: each sum adds clipped gradients at one model.

    Args:
        schedule: gives K, γ_t and B, the number of records that a device is expected to hold.
        initial: float64[P], the public start.
        step: step of the sum's grid.
        width: see SumConsumer.
    """

    def __init__(
        self, schedule: Schedule, initial: NDArray[np.float64], step: float, width: Callable[[int], int]
    ) -> None:
        self.size, self.rounds, self.width = schedule.size, schedule.steps, width
        self._schedule, self._step = schedule, step
        self._start = bounded(initial * UNIT)

    def fresh(self) -> Numerator | None:
        """Return the public start."""
        return self._start.copy()

    def point(self, numerator: Numerator | None) -> bytes:
        """Return the model."""
        return ((self._start if numerator is None else numerator) / UNIT).astype("<f8").tobytes()

    def model(self, numerator: Numerator) -> NDArray[np.float64]:
        """Return the model, float64[P]."""
        return numerator / UNIT

    def value_after_sum(
        self, numerator: Numerator | None, slot: int, total: NDArray[np.int64], members: int
    ) -> Numerator:
        """Return the value after a step along the sum."""
        before = self._start if numerator is None else numerator
        pace = rate(self._schedule, slot) / (self._schedule.expected_records * members)
        return bounded(before - np.rint(total * (pace * self._step * UNIT)))
