"""A device's contribution to a cell's sum: its clipped vector and its share of the noise, on a public grid."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import PrivacyError
from sottovoce.privacy.accounting.events import CellSum, UnprovedRelease
from sottovoce.privacy.accounting.gaussian import allowed_mu, gaussian_epsilon
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.mechanisms.clipped_sum import (
    DISTANCES,
    MAX_SQUARED_UNITS,
    Batches,
    check_grid_range,
    exact_sum,
    min_sigma,
    squared_record_distance,
    sum_clipped_rows,
)
from sottovoce.privacy.mechanisms.noise import NoiseSource
from sottovoce.privacy.mechanisms.samplers.discrete_gaussian import MAX_SIGMA, DiscreteGaussianSampler
from sottovoce.privacy.secure_sum.masks import bytes_per_value, largest_value

_MIN_STEPS = 2.0**8  # smallest number of grid steps in a share's σ, and in the clip norm per coordinate


@dataclass(frozen=True, slots=True)
class CellMechanism:
    """The bound and noise of one member's contribution.

    Attributes:
        cell: the cell's size limits.
        rounds: number of rounds that the budget covers.
        size: number of coordinates, P.
        exponent: the grid step is 2**exponent.
        clip_squared: the largest squared L2 norm of a device's vector, in squared units.
        sensitivity_squared: squared sensitivity of a cell's sum, in squared units.
        sigma: σ of the honest members' total noise in any sum that can be opened; 0 for no noise.
        is_presummed: whether the kernel clips and sums; if so, the mechanism receives their sum as its only row.
        rows: public upper bound on the number of rows of one device, which determines the width of a sum's values.
    """

    cell: Cell
    rounds: int
    size: int
    exponent: int
    clip_squared: int
    sensitivity_squared: int
    sigma: int
    is_presummed: bool = False
    rows: int = 1

    @property
    def step(self) -> float:
        """The grid step, a power of two."""
        return math.ldexp(1.0, self.exponent)

    @property
    def squared_clip_norm(self) -> int | None:
        """Squared clip norm to apply to rows; None if the kernel has already clipped them."""
        return None if self.is_presummed else self.clip_squared

    def share(self, members: int) -> int:
        """Return σ of each member's share for this roster size, in units."""
        honest = self.cell.honest_shares(members)
        return 0 if self.sigma == 0 else math.isqrt((self.sigma**2 - 1) // honest) + 1

    @property
    def reach(self) -> int:
        """Largest magnitude of a value in one contribution before noise, in units, for at most `rows` records."""
        return (math.isqrt(self.clip_squared) + 1) * self.rows

    def width(self, members: int) -> int:
        """Return the number of bytes per value in a sum for this roster size."""
        return bytes_per_value(members, self.reach, self.share(members))

    def largest_value(self, members: int, survivors: int) -> int:
        """Return the largest magnitude of a value in an honest sum over the survivors of a roster, in units."""
        return largest_value(survivors, self.reach, self.share(members))

    def event(self, members: int) -> CellSum | UnprovedRelease:
        """Return the cost of one sum for this roster size."""
        if self.sigma == 0:
            return UnprovedRelease("none")
        return CellSum(self.sensitivity_squared, self.share(members), self.cell.honest_shares(members))

    @property
    def largest_event(self) -> CellSum | UnprovedRelease:
        """Cost of one sum for the roster size at which it is largest, because shares are rounded."""
        return max(map(self.event, range(self.cell.least, self.cell.most + 1)), key=lambda event: event.mu_squared)

    def epsilon_alone(self, delta: float) -> float:
        """Return ε of all rounds together if all other devices collude; infinite if no bound is known."""
        roster_sizes = range(self.cell.least, self.cell.most + 1)
        event = self.event(min(roster_sizes, key=self.share))
        if not isinstance(event, CellSum) or math.isinf(mu_squared := event.if_others_collude.mu_squared):
            return math.inf
        return gaussian_epsilon(math.sqrt(self.rounds * mu_squared), delta)

    def apply(self, raw: Batches, members: int, noise: NoiseSource) -> NDArray[np.int64]:
        """Return this device's contribution, int64[size]; it must not leave the vault unmasked.

        Args:
            raw: batches float64[n, P] of the rows to clip and sum; there may be no rows.
            members: number of members in the roster.
            noise: the source of randomness.
        """
        # Clipping never increases the distance between two contributions.
        part = np.clip(sum_clipped_rows(self, raw), -self.reach, self.reach)
        if self.sigma == 0:
            return part
        return part + DiscreteGaussianSampler(self.share(members), noise).draw(self.size)


def calibrate_cell(
    cell: Cell,
    *,
    sums: int,
    clip: float,
    size: int,
    epsilon: float | None,
    delta: float,
    neighbouring: str,
    sum_error: float | None = None,
    rows: int = 1,
) -> CellMechanism:
    """Return the mechanism with the least noise for which all rounds cost at most (epsilon, delta).

    Args:
        cell: the cell's size limits.
        sums: number of planned sums; the cell's spare rounds are added.
        clip: L2 clip norm of one unit's contribution.
        size: number of values in a sum.
        epsilon: total ε; None for no noise.
        delta: total δ.
        neighbouring: `add-remove` (sensitivity C) or `replace-one` (2C).
        sum_error: rounding error of a kernel that clips and sums, as a multiple of the clip norm; None if this
            mechanism clips the rows. See Kernel.sum_error.
        rows: assumed maximum number of rows per device.

    Raises:
        PrivacyError: if the budget or the clip norm is invalid, or outside the grid's range.
    """
    check_grid_range(size, clip)
    if sums < 1:
        raise PrivacyError(
            "the privacy budget must cover at least one sum, but covers none; set learner.steps to at least 1"
        )
    distance, rounds, is_summed = DISTANCES[neighbouring], sums + cell.spare, sum_error is not None
    if epsilon is None:
        exponent = exact_sum(clip=clip, size=size).exponent
        exact_clip_squared = squared_record_distance(clip, exponent, size, sum_error)
        return CellMechanism(
            cell, rounds, size, exponent, exact_clip_squared, distance**2 * exact_clip_squared, 0, is_summed, rows
        )
    mu = allowed_mu(epsilon, delta) / math.sqrt(rounds)
    min_share = distance * clip / mu / math.sqrt(max(map(cell.honest_shares, range(cell.least, cell.most + 1))))
    exponent = math.floor(math.log2(min(min_share, clip / math.sqrt(size)) / _MIN_STEPS))
    clip_squared = squared_record_distance(clip, exponent, size, sum_error)
    sensitivity_squared = distance**2 * clip_squared
    sigma = min_sigma(sensitivity_squared, rounds, epsilon, delta)
    mechanism = CellMechanism(cell, rounds, size, exponent, clip_squared, sensitivity_squared, sigma, is_summed, rows)
    if sigma > MAX_SIGMA or clip_squared > MAX_SQUARED_UNITS:
        raise PrivacyError(
            f"ε = {epsilon:g} for sums of {size} numbers requires more noise than the grid allows; increase "
            "privacy.epsilon"
        )
    return mechanism
