"""Blocks of a home's vector: a curve over the day and the year, flags, and bins of the annual energy.

Every block is computed from all of a home's days together, and its L2 norm is at most 1 whatever the readings are.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sottovoce.data.products.flags import RULES
from sottovoce.data.products.known_homes import HALF_HOURS, PublicHomes, level_of
from sottovoce.kernels.profile import harmonic_waves

Floats = NDArray[np.float64]
Days = NDArray[np.int64]

YEAR = 365.2425
"""Mean length of a year, in days."""
MIN_DAYS = 28
"""Number of days below which a home contributes zeros: with fewer, a season is noise."""

_PENALTY = 0.02  # of the season's harmonics, so that homes with part of a year get the public season for the rest


class Block(Protocol):
    """The numbers that a home contributes for one product."""

    @property
    def name(self) -> str:
        """The product's name."""
        ...

    @property
    def size(self) -> int:
        """The number of numbers."""
        ...

    def encode(self, loads: Floats, days: Days) -> Floats:
        """Return the block, float64[size], with an L2 norm of at most 1.

        Args:
            loads: float64[n, 48], energy in each half hour, in kWh, from 0 to 12; at least MIN_DAYS days.
            days: int64[n], number of each day, counted from 1970-01-01.
        """
        ...


def year_waves(days: Days, count: int) -> Floats:
    """Return √2 cos kθ and √2 sin kθ for k = 1 … count, float64[2 count, n], where θ is the day's angle in the year."""
    angles = 2 * np.pi * np.outer(np.arange(1, count + 1), days) / YEAR
    return math.sqrt(2) * np.stack([np.cos(angles), np.sin(angles)], axis=1).reshape(2 * count, len(days))


@lru_cache(maxsize=16)
def _day_basis(count: int) -> Floats:
    return harmonic_waves(HALF_HOURS, count)


@dataclass(frozen=True, slots=True)
class Curve:
    """The mean load by half hour and day of the year, as harmonics of the day times harmonics of the year.

    A home's level is its mean energy, limited to a range from 0 to `largest_kwh`; the block holds its distance from the
    middle of the range. The shape and the season hold differences from the public ones in proportion to this level. If
    the block is too long, shape and season are shortened and the level is not, because the level decides whether the
    total energy is right.

    Attributes:
        name: the product's name.
        public: public facts about homes.
        day: number of harmonics of the day.
        year: number of harmonics of the year.
        joint: number of harmonics of the day whose season is released; the others have the level's season.
        largest_kwh: largest mean energy in a day, in kWh.
        level_scale: largest part of the norm that the level may use, from 0 to 1.
        shape_scale: factor of the shape's coefficients; 1/factor is the norm at which they are shortened.
        season_scale: the same for the season's coefficients.
    """

    name: str
    public: PublicHomes
    day: int
    year: int
    joint: int
    largest_kwh: float
    level_scale: float
    shape_scale: float
    season_scale: float

    @property
    def size(self) -> int:
        """The level, 2 · day of the shape, and 2 · year for each of 1 + 2 · joint waves of the day."""
        return 1 + 2 * self.day + 2 * self.year * (1 + 2 * self.joint)

    @property
    def middle(self) -> float:
        """The level in the middle of the range."""
        return level_of(self.largest_kwh) / 2

    @property
    def scales(self) -> Floats:
        """The factor of each number of the block, float64[size]."""
        season = 2 * self.year * (1 + 2 * self.joint)
        return np.repeat(
            [self.level_scale / self.middle, self.shape_scale, self.season_scale], [1, 2 * self.day, season]
        )

    @property
    def public_shape(self) -> Floats:
        """Coefficients of the public shape relative to the level's, float64[1 + 2 day]; the first is 1."""
        shape: Floats = _day_basis(self.day) @ (np.array(self.public.shape) / HALF_HOURS**0.5)
        return shape

    @property
    def public_season(self) -> Floats:
        """Coefficients of the public season relative to the level's, float64[2 year]."""
        return np.pad(self.public.season, (0, 2 * self.year - 2))

    def encode(self, loads: Floats, days: Days) -> Floats:
        """See Block.encode."""
        steady, seasonal = self._fit(loads, days)
        level = float(np.clip(steady[0], 0.0, 2 * self.middle))
        own = np.concatenate(
            [
                [level - self.middle],
                steady[1:] - level * self.public_shape[1:],
                seasonal[:, : 1 + 2 * self.joint].T.ravel(),
            ]
        )
        block = own * self.scales
        rest = block[1:]
        room, length = math.sqrt(1 - block[0] ** 2), math.sqrt(float(rest @ rest))
        if length > room:
            rest *= room / length
        return block

    def decode(self, block: Floats) -> tuple[float, Floats, Floats]:
        """Return what a block, or the mean of several, says about the load.

        Args:
            block: float64[size].

        Returns:
            The level; the shape's differences, float64[2 day]; the season's, float64[1 + 2 joint, 2 year].
        """
        numbers = block / self.scales
        shape, season = np.split(numbers[1:], [2 * self.day])
        return float(numbers[0]) + self.middle, shape, season.reshape(1 + 2 * self.joint, 2 * self.year)

    def _fit(self, loads: Floats, days: Days) -> tuple[Floats, Floats]:
        """Return each day wave's coefficient, and those of its season beyond the public one, by least squares.

        Returns:
            float64[1 + 2 day], and float64[2 year, 1 + 2 day].
        """
        waves = year_waves(days, self.year)
        design = np.vstack([1 + self.public_season @ waves, waves])
        gram = design @ design.T / len(days)
        gram[np.diag_indices(len(gram))] += np.append(0.0, np.full(len(waves), _PENALTY))
        projected: Floats = design @ (loads @ _day_basis(self.day).T) / len(days)
        fitted = np.linalg.solve(gram, projected).astype(np.float64, copy=False)
        return fitted[0], fitted[1:]


@dataclass(frozen=True, slots=True)
class Flags:
    """A number for each flag: 1/√k if the home's rule sets it, else 0, for k flags. No value is ever clipped.

    Attributes:
        name: the product's name.
        public: public facts about homes, with the rules' errors.
        flags: names of the flags, keys of sottovoce.data.products.flags.RULES.
    """

    name: str
    public: PublicHomes
    flags: tuple[str, ...]

    @property
    def size(self) -> int:
        """The number of flags."""
        return len(self.flags)

    def encode(self, loads: Floats, days: Days) -> Floats:
        """See Block.encode."""
        return np.array([float(RULES[flag](loads, days)) for flag in self.flags]) / math.sqrt(self.size)


@dataclass(frozen=True, slots=True)
class AnnualBins:
    """A number for each bin of a home's mean energy: 1 in the home's own bin, else 0. No value is ever clipped.

    Attributes:
        name: the product's name.
        public: public facts about homes, with their energies.
        edges_kwh: inner edges of the bins, in kWh per day, ascending; the outer bins are open.
    """

    name: str
    public: PublicHomes
    edges_kwh: tuple[float, ...]

    @property
    def size(self) -> int:
        """The number of bins."""
        return len(self.edges_kwh) + 1

    def encode(self, loads: Floats, days: Days) -> Floats:
        """See Block.encode."""
        block = np.zeros(self.size)
        block[np.searchsorted(self.edges_kwh, np.add.reduce(loads, axis=None) / len(days), side="right")] = 1.0
        return block
