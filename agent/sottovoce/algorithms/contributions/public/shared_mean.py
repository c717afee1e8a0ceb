"""The mean by which a fleet centres its records: derived by each device from all devices' signed sums of records.

A device releases one noisy sum of its records before its first gradient, and its contribution carries that sum from
then on. After a public number of cycles, or once most other devices have taken steps, each device derives the mean from
the sums that have arrived, and keeps it. A sum that arrives later, or that a device would release over other records,
changes nothing.

A contribution is expressed in the coordinates of the records themselves, whatever mean its owner used. The mean only
changes which steps the owner takes, so devices whose means differ, because one was killed before its sum had spread,
still add to the same model. Contributions are compared and combined in the coordinates of the mean of all sums that a
device has, so devices that hold the same contributions have the same model, whatever mean each of them has kept.
"""

import math
import operator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sottovoce.algorithms.contributions.public.robust import LONGEST, lower_median, vector_weights
from sottovoce.algorithms.contributions.public.state import ContributionsState, rank
from sottovoce.algorithms.steps.public.descent import UNIT, round_and_clip, round_numerator
from sottovoce.kernels.decentralised.centring import Coordinates, shrink_mean
from sottovoce.privacy.api import Query, Release

CYCLES = 12
"""Cycles between a device's sum and its mean: sums reach 64 devices in 6, and slow ones have as many again."""

_MIN_BEGUN = 2
"""Other devices with steps that hasten a mean; with one, a device that knows only a liar would keep its lie."""
_NOISE_DEVIATIONS = 3.0
"""Standard deviations of noise by which an honest sum may exceed its number of records."""
_FINEST_BITS = 24
_NOISE_TO_ROUNDING_RATIO = 16


@dataclass(frozen=True, slots=True)
class SharedMean:
    """The public rule by which a device derives the mean.

    Attributes:
        columns: the number of columns of a transformed record, D + 1.
        bias: the constant b in the last column.
        expected_records: B; sums are divided by it.
        noise: the standard deviation of the noise on each value of a sum, divided by B.
        dishonest: the share of devices that the robust mean leaves out.
    """

    columns: int
    bias: float
    expected_records: float
    noise: float
    dishonest: float
    _derived: list[tuple[tuple[NDArray[np.int64], ...], NDArray[np.float64]]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )

    def query(self, learner: str) -> Query:
        """Return the query for this device's sum of records."""
        return Query(learner, "mean", 0, np.empty(0))

    def scale(self, release: Release) -> NDArray[np.int64]:
        """Return a sum of records divided by B, int64[D + 1] in units of 2^-40, rounded to a sixteenth of its noise."""
        scaled = round_and_clip(release.value * (release.step / self.expected_records * UNIT))
        bits = _FINEST_BITS if self.noise == 0 else math.ceil(math.log2(_NOISE_TO_ROUNDING_RATIO / self.noise))
        rounded = round_numerator(scaled, min(_FINEST_BITS, max(0, bits)))
        rounded.setflags(write=False)
        return rounded

    def is_due(self, state: ContributionsState, own_rank: int) -> bool:
        """Return whether this device derives its mean now.

        A peer that has not been heard counts as one without steps. Otherwise, a device that claims steps, and is heard
        first, would make the others derive their means from its sum and their own alone. For the same reason, a single
        device never hastens the mean.
        """
        if state.mean is not None or state.mean_cycle is None:
            return False
        steps = [contribution.steps for owner_rank, contribution in state.held.items() if owner_rank != own_rank]
        begun = sum(count > 1 for count in steps)
        hastened = begun >= _MIN_BEGUN and 2 * begun > max(len(steps), len(state.peers))
        return hastened or state.cycle >= state.mean_cycle + CYCLES

    def own_coordinates(self, state: ContributionsState) -> Coordinates | None:
        """Return the coordinates of this device's gradients; None until it has derived its mean."""
        return None if state.mean is None else Coordinates(state.mean, self.bias)

    def coordinates(self, state: ContributionsState, owner: str) -> Coordinates:
        """Return the coordinates in which contributions are compared, which follow from the sums that a device has."""
        return Coordinates(self.derive(state, owner), self.bias)

    def derive(self, state: ContributionsState, owner: str) -> NDArray[np.float64]:
        """Return the mean of the sums that this device has, float64[D].

        No device moves the mean by more than its share. A sum is no longer than the number of its records, since none
        is longer than 1, and counts for up to 1.25 medians of this number and of the sums' lengths. The median of an
        even number of counts is the one nearest to the expected number, so that of two devices neither sets it.
        """
        sums = {
            owner_rank: contribution.record_sum
            for owner_rank, contribution in state.held.items()
            if contribution.record_sum is not None
        }
        if state.record_sum is not None:
            sums[rank(owner)] = state.record_sum
        if not sums:
            return np.zeros(self.columns - 1)
        ordered = tuple(sums[owner_rank] for owner_rank in sorted(sums))
        if self._derived:  # a device compares contributions with every message, but its sums seldom change
            previous, mean = self._derived[0]
            if len(previous) == len(ordered) and all(map(operator.is_, previous, ordered)):
                return mean
        mean = self._mean(ordered)
        mean.setflags(write=False)
        self._derived[:] = [(ordered, mean)]
        return mean

    def _mean(self, sums: tuple[NDArray[np.int64], ...]) -> NDArray[np.float64]:
        """Return the mean of sums in the order of their owners' ranks; see derive."""
        vectors = np.stack(sums) / UNIT
        counts = np.clip(vectors[:, -1], 0.0, None)
        usual = min(max(self.bias, lower_median(counts)), _upper_median(counts))
        shares = np.minimum(1.0, np.divide(LONGEST * usual, counts, out=np.ones_like(counts), where=counts > 0))
        counts = counts * shares
        totals = vectors[:, :-1] * shares[:, np.newaxis]
        lengths = np.linalg.norm(totals, axis=1)
        noise = self.noise * (math.sqrt(self.columns - 1) + _NOISE_DEVIATIONS * (1 + 1 / self.bias))
        longest = np.minimum(counts / self.bias + noise, LONGEST * _upper_median(lengths))
        totals *= np.divide(longest, lengths, out=np.ones_like(lengths), where=lengths > longest)[:, np.newaxis]
        weights = vector_weights(totals, math.floor(self.dishonest * len(vectors)))
        total = np.append(weights @ totals, weights @ counts) / weights.sum()
        return shrink_mean(total, self.bias, self.noise / math.sqrt(len(vectors)))


def _upper_median(numbers: NDArray[np.float64]) -> float:
    """Return the median of one or more values, or the upper of two middle values."""
    return float(np.sort(numbers)[len(numbers) // 2])
