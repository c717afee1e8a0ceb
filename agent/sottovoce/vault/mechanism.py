"""The discrete Gaussian mechanism on a public grid: its sensitivity follows from the clip and from nothing else."""

import math
from dataclasses import dataclass
from fractions import Fraction

from sottovoce.errors import PrivacyError
from sottovoce.vault.accountant import gaussian_epsilon, gaussian_mu
from sottovoce.vault.discrete_gaussian import MAX_SIGMA

# A discrete Gaussian of variance σ² is, to a factor within 1 ± 2^-450 a coordinate, a post-processing of a continuous
# one of variance σ² - 16 (docs/decisions/0003-discrete-gaussian.md), so that the continuous accountant applies to it.
SMOOTHING_VARIANCE = 16
_MAX_SQUARED_UNITS = 2**52
_DISTANCES = {"add-remove": 1, "replace-one": 2}  # between two neighbours' sums, in clips
_CLIPS = (2.0**-500, 2.0**500)  # far from where a float's exponent ends


@dataclass(frozen=True, slots=True)
class DiscreteGaussian:
    """One release of a clipped sum with discrete Gaussian noise, in units of a public grid.

    Attributes:
        exponent: the grid step is 2**exponent.
        clip_squared: the largest squared L2 norm of one example's contribution, in squared units.
        sensitivity_squared: squared L2 sensitivity of the sum, in squared units.
        sigma: the noise's standard deviation parameter, in units.
    """

    exponent: int
    clip_squared: int
    sensitivity_squared: int
    sigma: int

    @property
    def step(self) -> float:
        """The grid step, a power of two."""
        return math.ldexp(1.0, self.exponent)

    @property
    def mu_squared(self) -> float:
        """(sensitivity / standard deviation)² of the continuous Gaussian this release is a post-processing of."""
        return mu_squared(self.sensitivity_squared, self.sigma)


@dataclass(frozen=True, slots=True)
class Exact:
    """No noise at all, on a fine grid: the noiseless baseline. Charged as infinite.

    Attributes:
        exponent: the grid step is 2**exponent.
        clip_squared: as above, or None when nothing is clipped.
    """

    exponent: int
    clip_squared: int | None

    @property
    def step(self) -> float:
        """The grid step, a power of two."""
        return math.ldexp(1.0, self.exponent)


Mechanism = DiscreteGaussian | Exact


def mu_squared(sensitivity_squared: int, sigma: int) -> float:
    """μ² charged for one discrete Gaussian release, rounded up; infinite without noise."""
    variance = sigma * sigma - SMOOTHING_VARIANCE
    return math.nextafter(sensitivity_squared / variance, math.inf) if variance > 0 else math.inf


def allowed_mu(epsilon: float, delta: float) -> float:
    """The μ of all releases together that a budget pays for.

    Raises:
        PrivacyError: the budget promises nothing.
    """
    try:
        return gaussian_mu(epsilon, delta)
    except ValueError as error:
        raise PrivacyError(f"this budget promises nothing: {error}. Set privacy.epsilon and privacy.delta") from error


def calibrate(
    *, clip: float, size: int, releases: int, epsilon: float, delta: float, neighbouring: str
) -> DiscreteGaussian:
    """The least noise with which `releases` sums of clipped vectors cost at most (epsilon, delta) in all.

    Args:
        clip: per-example L2 threshold C.
        size: coordinates of a release.
        releases: how many such releases the budget is spread over.
        epsilon: total ε.
        delta: total δ.
        neighbouring: `add-remove` (sensitivity C) or `replace-one` (2C).

    Raises:
        PrivacyError: the budget, the relation or the clip is none, or outside what the grid can carry.
    """
    if releases < 1:
        raise PrivacyError("a privacy budget must be spread over at least one release: set learner.steps to 1 or more")
    if neighbouring not in _DISTANCES:
        raise PrivacyError(f"no neighbouring relation `{neighbouring}`: choose one of {', '.join(_DISTANCES)}")
    if size < 1 or not _CLIPS[0] < clip < _CLIPS[1]:
        raise PrivacyError(f"no grid for {size} numbers clipped at {clip:g}: set learner.clip to a positive number")
    excess = PrivacyError(
        f"ε = {epsilon:g} over {releases} releases of {size} numbers needs more noise than the grid holds: "
        "raise privacy.epsilon or lower learner.steps"
    )
    mu = allowed_mu(epsilon, delta) / math.sqrt(releases)
    if mu * MAX_SIGMA < 1:
        raise excess
    distance = _DISTANCES[neighbouring]
    finest = min(distance * clip / mu / 2**12, clip / (2**8 * math.sqrt(size)))
    exponent = math.floor(math.log2(finest))
    clip_squared = squared_units(clip, exponent)
    sensitivity_squared = distance**2 * clip_squared
    sigma = math.isqrt(math.ceil(sensitivity_squared / mu**2) + SMOOTHING_VARIANCE)
    while gaussian_epsilon(math.sqrt(releases * mu_squared(sensitivity_squared, sigma)), delta) > epsilon:
        sigma += 1
    if sigma > MAX_SIGMA or clip_squared > _MAX_SQUARED_UNITS:
        raise excess
    return DiscreteGaussian(exponent, clip_squared, sensitivity_squared, sigma)


def exact(*, clip: float | None) -> Exact:
    """The noiseless baseline, clipped at `clip` or not at all.

    Raises:
        PrivacyError: no grid carries the clip.
    """
    if clip is None:
        return Exact(-30, None)
    if not _CLIPS[0] < clip < _CLIPS[1]:
        raise PrivacyError(f"no grid for vectors clipped at {clip:g}: set learner.clip to a positive number")
    exponent = math.floor(math.log2(clip)) - 24
    return Exact(exponent, squared_units(clip, exponent))


def squared_units(clip: float, exponent: int) -> int:
    """floor((clip / 2^exponent)²), exactly."""
    return math.floor((Fraction(clip) / Fraction(2) ** exponent) ** 2)
