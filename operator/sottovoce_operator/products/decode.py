"""The way from an opened sum to the estimates of all its products."""

from sottovoce.data.products import AnnualBins, Curve, Flags

from sottovoce_operator.estimate import Estimate
from sottovoce_operator.products.counts import annual_quantiles, flag_counts
from sottovoce_operator.products.curves import load_estimates
from sottovoce_operator.products.estimate import Opened


def estimate_products(opened: Opened) -> list[Estimate]:
    """Return the estimates of all products of a sum, in the order of its blocks."""
    results: list[Estimate] = []
    parts = opened.products.split(opened.sums)
    for block, share, numbers in zip(opened.products.blocks, opened.products.shares, parts, strict=True):
        sigma = opened.sigma / share**0.5
        match block:
            case Curve():
                results += load_estimates(block, numbers, sigma, opened)
            case Flags():
                results.append(flag_counts(block, numbers, sigma, opened))
            case AnnualBins():
                results.append(annual_quantiles(block, numbers, sigma, opened))
    return results
