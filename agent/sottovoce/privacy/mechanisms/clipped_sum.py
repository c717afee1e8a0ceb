"""Clipped sums on a public grid with discrete Gaussian noise; their sensitivity follows from the clip norm."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import PrivacyError
from sottovoce.privacy.accounting.events import SMOOTHING_VARIANCE, GaussianSum, UnprovedRelease
from sottovoce.privacy.accounting.gaussian import allowed_mu, gaussian_epsilon, gaussian_mu
from sottovoce.privacy.mechanisms.clipping import clip_to_grid
from sottovoce.privacy.mechanisms.noise import NoiseSource
from sottovoce.privacy.mechanisms.samplers.discrete_gaussian import MAX_SIGMA, DiscreteGaussianSampler

Batches = Iterator[NDArray[np.float64]]

MAX_SQUARED_UNITS = 2**52
DISTANCES = {"add-remove": 1, "replace-one": 2}  # between two neighbours' sums, as multiples of the clip norm
CLIPS = (2.0**-500, 2.0**500)  # allowed clip norms, far from the limits of a float's exponent


@dataclass(frozen=True, slots=True)
class DiscreteGaussian:
    """Mechanism that releases a clipped sum with discrete Gaussian noise, in units of a public grid.

    Attributes:
        size: number of coordinates in a release, P.
        exponent: the grid step is 2**exponent.
        clip_squared: the largest squared L2 norm of one example's contribution, in squared units.
        sensitivity_squared: squared L2 sensitivity of the sum, in squared units.
        sigma: standard deviation parameter of the noise, in units.
        is_presummed: whether the kernel clips and sums; if so, the mechanism receives their sum as its only row.
    """

    size: int
    exponent: int
    clip_squared: int
    sensitivity_squared: int
    sigma: int
    is_presummed: bool = False

    @property
    def step(self) -> float:
        """The grid step, a power of two."""
        return math.ldexp(1.0, self.exponent)

    @property
    def squared_clip_norm(self) -> int | None:
        """Squared clip norm to apply to rows; None if the kernel has already clipped them."""
        return None if self.is_presummed else self.clip_squared

    @property
    def event(self) -> GaussianSum:
        """Cost of one release."""
        return GaussianSum(self.sensitivity_squared, self.sigma)

    def apply(self, raw: Batches, noise: NoiseSource) -> NDArray[np.int64]:
        """See Mechanism.apply; `raw` yields batches float64[n, P], with one row per record or with the kernel's sum."""
        return sum_clipped_rows(self, raw) + DiscreteGaussianSampler(self.sigma, noise).draw(self.size)


@dataclass(frozen=True, slots=True)
class Exact:
    """The noise-free baseline's mechanism, which releases an exact sum on a fine grid and is charged an infinite ε.

    Attributes:
        size: number of coordinates in a release, P.
        exponent: the grid step is 2**exponent.
        clip_squared: see DiscreteGaussian; None if this mechanism does not clip.
    """

    size: int
    exponent: int
    clip_squared: int | None

    @property
    def step(self) -> float:
        """The grid step, a power of two."""
        return math.ldexp(1.0, self.exponent)

    @property
    def squared_clip_norm(self) -> int | None:
        """Squared clip norm to apply to rows; None for no clipping."""
        return self.clip_squared

    @property
    def event(self) -> UnprovedRelease:
        """Cost of one release, which is infinite."""
        return UnprovedRelease("none")

    def apply(self, raw: Batches, noise: NoiseSource) -> NDArray[np.int64]:
        """See Mechanism.apply; `raw` yields batches float64[n, P] with one row per record."""
        return sum_clipped_rows(self, raw)


ClippedSum = DiscreteGaussian | Exact


def clipped_sum_mu(epsilon: float, delta: float, neighbouring: str) -> float:
    """Return the total μ that a budget allows for sums of contributions of norm at most 1.

    K sums with noise of standard deviation √K/μ per coordinate use up the budget. Replacing a contribution moves a sum
    twice as far as adding one, so μ is half as large under replace-one as under add-remove.
    """
    return gaussian_mu(epsilon, delta) / DISTANCES[neighbouring]


def calibrate(
    *,
    clip: float,
    size: int,
    releases: int,
    epsilon: float,
    delta: float,
    neighbouring: str,
    sum_error: float | None = None,
    spent_mu_squared: float = 0.0,
) -> DiscreteGaussian:
    """Return the mechanism with the least noise for which `releases` clipped sums cost at most (epsilon, delta).

    Args:
        clip: per-example L2 clip norm C.
        size: number of coordinates in a release.
        releases: number of such releases that the budget covers.
        epsilon: total ε.
        delta: total δ.
        neighbouring: `add-remove` (sensitivity C) or `replace-one` (2C).
        sum_error: rounding error of a kernel that clips and sums, as a multiple of the clip norm; None if the
            mechanism clips the rows. See Kernel.sum_error.
        spent_mu_squared: the μ² of other releases that the same budget pays for.

    Raises:
        PrivacyError: if the budget, the relation or the clip norm is invalid, or outside the grid's range.
    """
    if releases < 1:
        raise PrivacyError(
            "the privacy budget must cover at least one release, but covers none; set learner.steps to at least 1"
        )
    if neighbouring not in DISTANCES:
        raise PrivacyError(f"unknown neighbouring relation `{neighbouring}`; use one of {', '.join(DISTANCES)}")
    check_grid_range(size, clip)
    excess = PrivacyError(
        f"ε = {epsilon:g} over {releases} releases of {size} numbers requires more noise than the grid allows; "
        "increase privacy.epsilon or reduce learner.steps"
    )
    mu = _available_mu(epsilon, delta, spent_mu_squared) / math.sqrt(releases)
    if mu * MAX_SIGMA < 1:
        raise excess
    distance = DISTANCES[neighbouring]
    exponent = grid_exponent(distance * clip / mu, clip, size, sum_error)
    clip_squared = squared_record_distance(clip, exponent, size, sum_error)
    sensitivity_squared = distance**2 * clip_squared
    sigma = min_sigma(sensitivity_squared, releases, epsilon, delta, spent_mu_squared)
    if sigma > MAX_SIGMA or clip_squared > MAX_SQUARED_UNITS:
        raise excess
    return DiscreteGaussian(
        size, exponent, clip_squared, sensitivity_squared, sigma, is_presummed=sum_error is not None
    )


def check_grid_range(size: int, clip: float) -> None:
    """Check that a sum of `size` values, clipped at L2 norm `clip`, has a grid.

    Raises:
        PrivacyError: if it does not.
    """
    if size < 1 or not CLIPS[0] < clip < CLIPS[1]:
        raise PrivacyError(
            f"a sum of vectors with {size} values, clipped at {clip:g}, is outside the grid's range; set learner.clip "
            "to a number between 2^-500 and 2^500"
        )


def grid_exponent(noise: float, clip: float, size: int, sum_error: float | None) -> int:
    """Return the exponent of a grid that is fine compared with the noise and the clip norm.

    The grid is finer still for kernels that clip and sum, because rounding their sum adds to its sensitivity.

    Args:
        noise: approximate standard deviation of the noise.
        clip: C.
        size: number of coordinates in a release.
        sum_error: see `calibrate`.
    """
    return math.floor(math.log2(min(noise / 2**12, clip / (2**8 if sum_error is None else 2**10) / math.sqrt(size))))


def squared_record_distance(clip: float, exponent: int, size: int, sum_error: float | None) -> int:
    """Return the squared distance by which one record can move a sum on the grid, in squared units.

    Rows that are clipped on the grid have at most the clip norm. A kernel's sum is exact up to `sum_error` for each of
    two neighbours. Each value is then rounded toward zero, which increases the distance between two values by less than
    one unit. The total is (1 + 2 · sum_error) C / step + √P (docs/decisions/0024-gradients-in-the-graph.md).
    """
    if sum_error is None:
        return squared_units(clip, exponent)
    distance = Fraction(clip) * (1 + 2 * Fraction(sum_error)) / Fraction(2) ** exponent + math.isqrt(size) + 1
    return math.ceil(distance) ** 2


def min_sigma(
    sensitivity_squared: int, releases: int, epsilon: float, delta: float, spent_mu_squared: float = 0.0
) -> int:
    """Return the smallest integer σ for which `releases` releases of this sensitivity cost at most (epsilon, delta).

    Args:
        sensitivity_squared: squared L2 sensitivity of a release, in squared units.
        releases: number of releases.
        epsilon: total ε.
        delta: total δ.
        spent_mu_squared: the μ² of other releases that the same budget pays for.
    """
    mu = _available_mu(epsilon, delta, spent_mu_squared) / math.sqrt(releases)
    sigma = math.isqrt(math.ceil(sensitivity_squared / mu**2) + SMOOTHING_VARIANCE)
    while _epsilon_of_sums(sensitivity_squared, sigma, releases, delta, spent_mu_squared) > epsilon:
        sigma += 1
    return sigma


def _available_mu(epsilon: float, delta: float, spent_mu_squared: float) -> float:
    """Return the μ that a budget leaves beside other releases; without any, the same bits as ever."""
    allowed = allowed_mu(epsilon, delta)
    return allowed if spent_mu_squared == 0 else math.sqrt(max(0.0, allowed**2 - spent_mu_squared))


def _epsilon_of_sums(
    sensitivity_squared: int, sigma: int, releases: int, delta: float, spent_mu_squared: float
) -> float:
    mu_squared = releases * GaussianSum(sensitivity_squared, sigma).mu_squared + spent_mu_squared
    return gaussian_epsilon(math.sqrt(mu_squared), delta)


def exact_sum(*, clip: float | None, size: int, sum_error: float | None = None) -> Exact:
    """Return the noise-free baseline for sums of `size` values.

    Args:
        clip: per-example L2 clip norm C; None for no clipping.
        size: number of coordinates in a release.
        sum_error: see `calibrate`; not None if the kernel clips and sums.

    Raises:
        PrivacyError: if the clip norm is outside the grid's range.
    """
    if clip is None:
        return Exact(size, -30, None)
    if not CLIPS[0] < clip < CLIPS[1]:
        raise PrivacyError(
            f"the clip norm {clip:g} is outside the grid's range; set learner.clip to a number between 2^-500 and 2^500"
        )
    exponent = math.floor(math.log2(clip)) - 24
    return Exact(size, exponent, squared_units(clip, exponent) if sum_error is None else None)


def squared_units(clip: float, exponent: int) -> int:
    """Return floor((clip / 2^exponent)²), exactly."""
    return math.floor((Fraction(clip) / Fraction(2) ** exponent) ** 2)


class SumBounds(Protocol):
    """The bounds of a sum: P, the grid step, and the squared bound on a row, in squared units."""

    @property
    def size(self) -> int:  # noqa: D102 - see the class
        ...

    @property
    def step(self) -> float:  # noqa: D102
        ...

    @property
    def squared_clip_norm(self) -> int | None:  # noqa: D102
        ...


def sum_clipped_rows(bounds: SumBounds, batches: Batches) -> NDArray[np.int64]:
    """Return the exact sum of the clipped rows in grid units: every partial sum is an integer below 2^53."""
    total = np.zeros(bounds.size, dtype=np.int64)
    for rows in batches:
        units = clip_to_grid(rows, bounds.step, bounds.squared_clip_norm)
        total += np.add.reduce(units, axis=0).astype(np.int64)
    return total
