"""A home's vector: the declared blocks, each scaled by the square root of its share."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.data.products.blocks import MIN_DAYS, AnnualBins, Block, Curve, Flags
from sottovoce.data.products.known_homes import HALF_HOURS, PublicHomes, read_public

Floats = NDArray[np.float64]

_LARGEST_KWH = 12.0  # the energy that 100 A at 240 V deliver in half an hour
_BINS = (0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9)  # public probabilities of the inner edges


@dataclass(frozen=True, slots=True)
class _CurveScales:
    """The settings of both curves for fleets of one size, in the order of Curve's attributes."""

    profile: tuple[int, int, int, float, float, float, float]
    days: tuple[int, int, int, float, float, float, float]


_BY_FLEET: Mapping[int, _CurveScales] = {
    300: _CurveScales((5, 1, 0, 28.0, 0.95, 1.0, 0.8), (0, 9, 0, 28.0, 0.90, 0.8, 0.8)),
    1_000: _CurveScales((6, 1, 1, 32.0, 0.80, 0.5, 0.6), (0, 9, 0, 32.0, 0.80, 0.7, 0.7)),
    10_000: _CurveScales((12, 2, 3, 60.0, 0.70, 0.2, 0.25), (0, 9, 0, 60.0, 0.70, 0.3, 0.3)),
}
"""Settings with the smallest expected error for a number of homes, from public homes; see benchmarks/products.py."""
FLEETS = tuple(_BY_FLEET)
"""Numbers of homes for which there are settings."""


def _profile(public: PublicHomes, fleet: int, flags: tuple[str, ...]) -> Block:
    return Curve("monthly-profile", public, *_BY_FLEET[fleet].profile)


def _daily_means(public: PublicHomes, fleet: int, flags: tuple[str, ...]) -> Block:
    return Curve("daily-means", public, *_BY_FLEET[fleet].days)


def _flags(public: PublicHomes, fleet: int, flags: tuple[str, ...]) -> Block:
    return Flags("flags", public, flags)


def _annual_quantiles(public: PublicHomes, fleet: int, flags: tuple[str, ...]) -> Block:
    edges = np.quantile(public.homes_kwh, _BINS)
    return AnnualBins("annual-quantiles", public, tuple(np.round(edges, 2).tolist()))


PRODUCTS: Mapping[str, Callable[[PublicHomes, int, tuple[str, ...]], Block]] = {
    "monthly-profile": _profile,
    "daily-means": _daily_means,
    "flags": _flags,
    "annual-quantiles": _annual_quantiles,
}
"""What makes each product's block from the public facts, the number of homes and the flags, keyed by product."""


@dataclass(frozen=True, slots=True)
class Products:
    """The vector that a home contributes to one secure sum.

    Attributes:
        blocks: the products' blocks.
        shares: each block's share, positive; they add up to 1.
    """

    blocks: tuple[Block, ...]
    shares: tuple[float, ...]

    @property
    def width(self) -> int:
        """The number of values in a day's load."""
        return HALF_HOURS

    @property
    def size(self) -> int:
        """The number of numbers in the vector."""
        return sum(block.size for block in self.blocks)

    @property
    def bound(self) -> float:
        """The L2 bound on the vector: √(Σ s_b · 1²) = 1, whatever the blocks are."""
        return 1.0

    def row(self, features: Floats, windows: NDArray[np.int64] | None) -> Floats:
        """Return the home's vector, float64[size]; zeros if it has too few days.

        Args:
            features: float64[n, 48], each day's loads, in kWh; limited to what a household connection can deliver.
            windows: int64[n], number of each day.
        """
        if windows is None or len(windows) < MIN_DAYS:
            return np.zeros(self.size)
        loads = np.clip(features, 0.0, _LARGEST_KWH)
        parts = [
            math.sqrt(share) * block.encode(loads, windows)
            for block, share in zip(self.blocks, self.shares, strict=True)
        ]
        return np.concatenate(parts)

    def vector(self, coefficients: Floats) -> Floats:
        """Return the numbers that the fleet publishes: the coefficients themselves, float64[size]."""
        return coefficients

    def split(self, numbers: Floats) -> tuple[Floats, ...]:
        """Return each block of a vector without its scale, so that its norm is at most 1."""
        ends = np.cumsum([block.size for block in self.blocks])[:-1]
        parts = np.split(numbers, ends)
        return tuple(part / math.sqrt(share) for part, share in zip(parts, self.shares, strict=True))


def make_products(
    names: Sequence[str], shares: Sequence[float], flags: Sequence[str], public: str, fleet: int
) -> Products:
    """Return the vector of a task.

    Args:
        names: the products, keys of PRODUCTS.
        shares: each product's share of the privacy budget; empty for equal shares. They need not add up to 1.
        flags: the flags, for the product `flags`.
        public: name of the public file.
        fleet: number of homes for which the settings are made, one of FLEETS.
    """
    facts = read_public(public)
    weights = [*shares] or [1.0] * len(names)
    blocks = tuple(PRODUCTS[name](facts, fleet, tuple(flags)) for name in names)
    return Products(blocks, tuple(weight / math.fsum(weights) for weight in weights))
