"""Counts of flags, corrected for the errors of their rules, and quantiles from the counts in bins."""

import numpy as np
from numpy.typing import NDArray
from sottovoce.data.products import AnnualBins, Flags

from sottovoce_operator.estimate import Estimate
from sottovoce_operator.products.estimate import Opened, declared_bias, root_mean_square, with_parts

Floats = NDArray[np.float64]

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
"""Probabilities of the quantiles that are estimated."""
DAYS_A_YEAR = 365.25

_DRAWS, _SEED = 400, 1  # of the counts, to carry their errors over to the quantiles
_BIN_ERROR = 0.02  # of a bin's public probability, beyond what a common factor explains


def flag_counts(block: Flags, numbers: Floats, sigma: float, opened: Opened) -> Estimate:
    """Return how many of the homes in the sum have each flag, without bias if the rules' errors are as declared.

    A count may be negative or larger than the number of homes: cutting it off would make it biased.

    Args:
        block: the block.
        numbers: its sum over the homes, float64[size].
        sigma: σ of the noise in each number.
        opened: the sum that contains the block.
    """
    rules = [block.public.rules[flag] for flag in block.flags]
    false, hits = np.array([rule.false_alarms for rule in rules]), np.array([rule.hits for rule in rules])
    tested, power, homes = np.array([rule.homes for rule in rules]), hits - false, opened.homes
    counts = (numbers * block.size**0.5 - false * homes) / power
    share = np.clip(counts / homes, 0, 1)
    chance = homes * (share * hits * (1 - hits) + (1 - share) * false * (1 - false))
    doubt = [np.sqrt(np.maximum(rate * (1 - rate), 1 / tested) / tested) for rate in (false, hits)]
    parts = {
        "noise": np.full(block.size, sigma * block.size**0.5) / power,
        "rules": np.sqrt(chance) / power,
        "bias": homes * np.hypot((1 - share) * doubt[0], share * doubt[1]) / power,
    }
    measured = "; ".join(
        f"{flag}: {rule.false_alarms:.1%} false alarms, {rule.hits:.1%} found, on {rule.homes} public homes "
        f"({rule.description})"
        for flag, rule in zip(block.flags, rules, strict=True)
    )
    return with_parts(
        opened,
        parts,
        name="flags",
        title=f"Homes with a flag, among the {homes} in the sum",
        unit="homes",
        labels=block.flags,
        values=counts,
        remarks=(f"The counts are corrected for the rules' errors. {measured}.",),
    )


def annual_quantiles(block: AnnualBins, numbers: Floats, sigma: float, opened: Opened) -> Estimate:
    """Return quantiles of the homes' annual energy, which never cross.

    The bins' probabilities are blended with the public ones, whose errors are those of a common factor and a little
    more. Inside a bin, homes are distributed as the public ones are.

    Args:
        block: the block.
        numbers: its sum over the homes, float64[size].
        sigma: σ of the noise in each number.
        opened: the sum that contains the block.
    """
    public, homes = block.public, opened.homes
    prior, doubt = _public_bins(block)
    measured = np.clip(numbers / homes, -1, 2)
    scatter = np.diag(prior) - np.outer(prior, prior)
    chance = scatter / opened.fleet  # of which homes happen to be in the fleet
    doubt += chance
    sampling = scatter * opened.sampling_factor**2
    gain = doubt @ np.linalg.inv(doubt + sampling + np.eye(block.size) * (sigma / homes) ** 2)
    value = _quantiles(block, prior + gain @ (measured - prior))
    remaining, kept = gain * (sigma / homes) ** 2, gain @ sampling @ gain.T
    alone = _quantiles(block, prior)
    parts = {
        "noise": _deviation(block, prior, remaining),
        "sampling": _deviation(block, prior, kept),
        "bias": declared_bias(opened.fleet_size, "annual-quantiles") * value,
    }
    scatter_of_bins = _deviation(block, prior, np.eye(block.size) * _BIN_ERROR**2 + chance)
    return with_parts(
        opened,
        parts,
        name="annual-quantiles",
        title="Quantiles of the homes' annual energy",
        unit="kWh per year",
        labels=tuple(f"P{100 * probability:.0f}" for probability in QUANTILES),
        values=value,
        prior=alone,
        prior_error=root_mean_square(np.hypot(alone * public.level_error, scatter_of_bins)),
    )


def _public_bins(block: AnnualBins) -> tuple[Floats, Floats]:
    """Return the public probability of each bin, float64[b], and its covariance, float64[b, b]."""
    homes = np.array(block.public.homes_kwh)

    def bins(factor: float) -> Floats:
        counts = np.bincount(np.searchsorted(block.edges_kwh, factor * homes, side="right"), minlength=block.size)
        probabilities: Floats = counts / len(homes)
        return probabilities

    error = block.public.level_error
    shift = (bins(1 + error) - bins(1 - error)) / 2
    return bins(1.0), np.outer(shift, shift) + np.eye(block.size) * _BIN_ERROR**2


def _quantiles(block: AnnualBins, probabilities: Floats) -> Floats:
    """Return the quantiles in kWh per year for these probabilities of the bins, which may be negative."""
    public, _ = _public_bins(block)
    ends = np.clip(np.maximum.accumulate(np.cumsum(probabilities)[:-1]), 0, 1)
    own, known = np.concatenate([[0], ends, [1]]), np.concatenate([[0], np.cumsum(public)[:-1], [1]])
    homes = np.array(block.public.homes_kwh)
    ranks = (np.arange(len(homes)) + 0.5) / len(homes)
    quantiles: Floats = DAYS_A_YEAR * np.interp(np.interp(QUANTILES, own, known), ranks, homes)
    return quantiles


def _deviation(block: AnnualBins, probabilities: Floats, covariance: Floats) -> Floats:
    """Return the quantiles' standard deviations if the bins' probabilities have this covariance."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    factor = vectors * np.sqrt(np.maximum(values, 0))
    draws = probabilities + np.random.default_rng(_SEED).normal(size=(_DRAWS, block.size)) @ factor.T
    deviations: Floats = np.array([_quantiles(block, draw) for draw in draws]).std(axis=0)
    return deviations
