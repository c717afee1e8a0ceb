"""Charges for sampled Gaussian releases, and the cost of a ledger that contains them.

A sum over a secret random subset of the records costs less than a sum over all of them. Such a release is neither
Gaussian nor pure, so its contribution to a ledger's ε is computed from privacy loss distributions
(docs/decisions/0012-accounting.md).
"""

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from sottovoce.errors import PrivacyError
from sottovoce.privacy.accounting.events import SMOOTHING_VARIANCE
from sottovoce.privacy.accounting.gaussian import gaussian_epsilon, sum_epsilons
from sottovoce.privacy.accounting.units import EVERY, Units

if TYPE_CHECKING:
    from sottovoce.privacy.accounting.pairs import Pair

_SIGNIFICANT_BITS = (3, 6, 9, 12)  # significant bits of the rounded counts that `is_affordable` tries first
_MAX_EVENTS = 64  # maximum number of distinct events that are composed individually
_MAX_GRID_BITS = 8
_UNITS = 2**30  # scale of a rounded event's integers; the cost of this rounding is negligible
_TOLERANCE = 1e-6  # bound on the relative difference between two answers that are each exact on their own grid


@dataclass(frozen=True, slots=True)
class SampledGaussian:
    """A sum over a random subset of the units, with discrete Gaussian noise.

    Attributes:
        sensitivity_squared: the largest squared norm of one record's contribution to the sum, in squared grid units;
            positive. Replacing a record changes a sum by up to twice that norm. This class accounts for that, so do
            not count it twice.
        sigma: σ of the noise, in grid units; if it is too small, the charge is infinite.
        sampling: `poisson` selects each record independently with probability batch / of; `without-replacement`
            selects exactly `batch` of `of` records, uniformly.
        batch: numerator of the sampling rate; positive.
        of: denominator of the sampling rate; at least `batch`.
        neighbouring: `add-remove` or `replace-one`; when sampling without replacement, the number of records is
            public, so only `replace-one` is possible.
        units: units from which the sample is drawn.
    """

    sensitivity_squared: int
    sigma: int
    sampling: Literal["poisson", "without-replacement"]
    batch: int
    of: int
    neighbouring: Literal["add-remove", "replace-one"]
    units: Units = EVERY

    def __post_init__(self) -> None:
        """Raise PrivacyError if the values are not a valid charge."""
        if self.sensitivity_squared < 1 or self.sigma < 0 or not 1 <= self.batch <= self.of:
            raise PrivacyError(
                "a sampled charge's sensitivity is not positive, its σ is negative, or its rate is not in (0, 1]; "
                "recalibrate the mechanism"
            )
        if self.sampling not in ("poisson", "without-replacement"):
            raise PrivacyError(f"unknown sampling method {self.sampling}; use poisson or without-replacement")
        if self.neighbouring not in ("add-remove", "replace-one"):
            raise PrivacyError(f"unknown neighbouring relation {self.neighbouring}; use add-remove or replace-one")
        if (self.sampling, self.neighbouring) == ("without-replacement", "add-remove"):
            raise PrivacyError("a fixed-size batch reveals the number of records; set privacy.neighbouring=replace-one")

    @property
    def mu_squared(self) -> float:
        """Return zero, since no part of the release is Gaussian."""
        return 0.0

    @property
    def epsilon(self) -> float:
        """Return zero, since no part of the release is pure."""
        return 0.0

    @property
    def terms(self) -> str:
        """See Event.terms."""
        return _canonical_json({"event": "sampled-gaussian", **asdict(self)})

    @property
    def cost_key(self) -> str:
        """Return the inputs to the cost as canonical JSON; charges that differ only in their units have equal keys."""
        multiplier = Fraction(self._variance, self.sensitivity_squared)
        rate = Fraction(self.batch, self.of)
        relation = {"neighbouring": self.neighbouring, "sampling": self.sampling}
        return _canonical_json({"multiplier_squared": str(multiplier), "rate": str(rate), **relation})

    @property
    def noise(self) -> float:
        """Return the noise multiplier of the continuous Gaussian behind this release, rounded down; 0 if noise-free."""
        ratio = max(0, self._variance) / self.sensitivity_squared
        return max(0.0, math.sqrt(ratio) * (1 - 2.0**-50))

    @property
    def distance(self) -> int:
        """Return the largest distance between the sums of two neighbours, in multiples of the sensitivity."""
        return 2 if self.neighbouring == "replace-one" else 1

    @property
    def pairs(self) -> "tuple[Pair, Pair] | None":
        """Return the pair for a record's presence versus its absence, and the reverse; None without a guarantee."""
        from sottovoce.privacy.accounting.pairs import MIN_NOISE, AddedPair, FixedSizePair, RemovedPair, ReplacedPair

        if self.noise < MIN_NOISE:
            return None
        rate = min(1.0, math.nextafter(self.batch / self.of, math.inf))
        pair: Pair
        if self.sampling == "without-replacement":
            pair = FixedSizePair(rate, self.noise)
        elif self.neighbouring == "replace-one":
            pair = ReplacedPair(rate, self.noise)
        else:
            return RemovedPair(rate, self.noise), AddedPair(rate, self.noise)
        return pair, pair

    @property
    def _variance(self) -> int:
        return self.sigma * self.sigma - SMOOTHING_VARIANCE


def sampled_epsilon(mu_squared: float, pure: float, sampled: Mapping[SampledGaussian, int], delta: float) -> float:
    """Return the ε at δ for all charges to one unit, rounded up; infinite if there is no guarantee.

    An additional or a more expensive charge never lowers the result by more than one part in a million.

    Args:
        mu_squared: Σ μ² of the Gaussian charges.
        pure: Σ ε of the pure charges.
        sampled: how often each sampled charge was made.
        delta: δ.

    Raises:
        PrivacyError: if the charges use both neighbouring relations, which do not compose.
    """
    counts: dict[str, tuple[SampledGaussian, int]] = {}
    for event, count in sampled.items():
        if count > 0:
            counts[event.cost_key] = event, count + counts.get(event.cost_key, (event, 0))[1]
    return sum_epsilons(_epsilon(mu_squared, tuple(counts[key] for key in sorted(counts)), delta), pure)


def is_affordable(
    epsilon: float, mu_squared: float, pure: float, sampled: Mapping[SampledGaussian, int], delta: float
) -> bool:
    """Return whether `sampled_epsilon` of these charges is at most ε.

    The function is called at every charge and is nearly always cheap. It first tries counts rounded up to a few
    significant bits, for which cached answers serve many charges, and then counts rounded down. It uses the exact
    counts only close to the limit.

    Raises:
        PrivacyError: if the charges use both neighbouring relations.
    """
    for bits in _SIGNIFICANT_BITS:
        above = {event: _round_up(count, bits) for event, count in sampled.items()}
        if sampled_epsilon(_round_float_up(mu_squared, bits), pure, above, delta) <= epsilon * (1 - _TOLERANCE):
            return True
        below = {event: -_round_up(-count, bits) for event, count in sampled.items()}
        if sampled_epsilon(-_round_float_up(-mu_squared, bits), pure, below, delta) > epsilon * (1 + _TOLERANCE):
            return False
    return sampled_epsilon(mu_squared, pure, sampled, delta) <= epsilon


@lru_cache(maxsize=4096)
def _epsilon(mu_squared: float, counts: tuple[tuple[SampledGaussian, int], ...], delta: float) -> float:
    if not counts:
        return gaussian_epsilon(math.sqrt(mu_squared), delta)
    from sottovoce.privacy.accounting.accountant import (
        composed_epsilon,  # imported only for ledgers that have such charges
    )
    from sottovoce.privacy.accounting.pairs import GaussianPair

    if len({event.neighbouring for event, _ in counts}) > 1:
        raise PrivacyError("charges under add-remove and under replace-one do not compose; use a single relation")
    if math.isinf(mu_squared):
        return math.inf
    gaussian: dict[Pair, int] = (
        {GaussianPair(math.nextafter(math.sqrt(mu_squared), math.inf)): 1} if mu_squared > 0 else {}
    )
    directions: tuple[dict[Pair, int], dict[Pair, int]] = {**gaussian}, {**gaussian}
    total_mu_squared = mu_squared  # cost as if every record were in every sum; never an underestimate
    for event, count in merge_events(counts):
        pairs = event.pairs
        if pairs is None:
            return math.inf
        for direction, pair in zip(directions, pairs, strict=True):
            direction[pair] = direction.get(pair, 0) + count
        total_mu_squared += count * (event.distance / event.noise) ** 2 * (1 + 2.0**-50)
    sampled = max(composed_epsilon(direction, delta) for direction in directions)
    return min(sampled, gaussian_epsilon(math.sqrt(total_mu_squared * (1 + 2.0**-40)), delta))


def merge_events(counts: tuple[tuple[SampledGaussian, int], ...]) -> tuple[tuple[SampledGaussian, int], ...]:
    """Merge events into at most _MAX_EVENTS distinct ones, without lowering their total cost.

    If there are more than _MAX_EVENTS, rates are rounded up and noise is rounded down on grids of 2^(k / 2^b), for the
    largest b that leaves few enough distinct events. Each of these grids is a subset of the finer ones, so an
    additional event never makes another cheaper. With b = 6, neither rates nor noise change by more than 1.1 %.
    """
    if len(counts) <= _MAX_EVENTS:
        return counts
    coarse: Counter[SampledGaussian] = Counter()
    for bits in range(_MAX_GRID_BITS, -1, -1):
        coarse.clear()
        for event, count in counts:
            coarse[_coarsen(event, bits)] += count
        if len(coarse) <= _MAX_EVENTS:
            break
    return tuple(sorted(coarse.items(), key=lambda item: item[0].cost_key))


def _coarsen(event: SampledGaussian, bits: int) -> SampledGaussian:
    """Return the event with its rate rounded up and its noise rounded down to the grid 2^(k / 2^bits)."""
    if event.sampling != "poisson" or event.sigma**2 <= SMOOTHING_VARIANCE:
        return event
    grid = 2**bits
    noise = math.sqrt(event.sigma**2 - SMOOTHING_VARIANCE) / math.sqrt(event.sensitivity_squared)
    lower = 2.0 ** (math.floor(math.log2(noise * (1 - 2**-40)) * grid) / grid)
    rate = Fraction(event.batch, event.of)
    upper = min(1.0, 2.0 ** (math.ceil(math.log2(float(rate) * (1 + 2**-40)) * grid) / grid))
    return replace(
        event,
        sensitivity_squared=_UNITS**2,
        sigma=math.floor(lower * _UNITS),
        batch=math.ceil(upper * _UNITS) if upper < 1 else _UNITS,
        of=_UNITS,
        units=EVERY,
    )


def _round_up(count: int, bits: int) -> int:
    """Round a count up to `bits` significant bits; negative counts are rounded towards zero."""
    unit = max(0, abs(count).bit_length() - bits)
    return -((-count >> unit) << unit)


def _round_float_up(value: float, bits: int) -> float:
    mantissa, exponent = math.frexp(value)
    return math.ldexp(math.ceil(math.ldexp(mantissa, bits)), exponent - bits) if math.isfinite(value) else value


def _canonical_json(fields: dict[str, object]) -> str:
    return json.dumps(fields, sort_keys=True, separators=(",", ":"))
