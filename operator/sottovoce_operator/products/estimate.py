"""What estimates are made from: an opened sum, the declared biases, and the parts of a standard error.

The standard error has three parts: the noise of the sum, after the estimate was blended with the public prior by the
noise's known size; who was in the sum; and the declared bias, which was measured on public homes with the same settings
(declared.toml). A 95 % bar is 1.96 standard errors to either side.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sottovoce.data.products import Products

from sottovoce_operator.estimate import Estimate

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Opened:
    """The public result of a sum, as far as estimates need it.

    Attributes:
        products: the blocks of the sum.
        sums: the sum over the homes, float64[P].
        homes: number of homes in the sum.
        sigma: σ of the noise in each number of the sum.
        days: number of the first and of the last day, counted from 1970-01-01, inclusive.
        fleet: number of homes for which the result speaks, at least `homes`.
        fleet_size: number of homes for which the task's bounds were chosen.
    """

    products: Products
    sums: Floats
    homes: int
    sigma: float
    days: tuple[int, int]
    fleet: int
    fleet_size: int

    @property
    def sampling_factor(self) -> float:
        """Standard error of a mean over the homes in the sum, for homes with a standard deviation of 1."""
        return float(np.sqrt(1 / self.homes - 1 / self.fleet))


def with_parts(opened: Opened, parts: Mapping[str, Floats], **fields: Any) -> Estimate:
    """Return an estimate whose errors have these parts, keyed by source; see sottovoce_operator.estimate.Estimate."""
    first, last = opened.days
    errors = np.sqrt(np.sum([part**2 for part in parts.values()], axis=0))
    return Estimate(errors=errors, error_sources=tuple(parts), parts=parts, days=last - first + 1, **fields)


def root_mean_square(values: Floats) -> float:
    """Return the root mean square of an array."""
    return float(np.sqrt(np.mean(values**2)))


@lru_cache(maxsize=1)
def _declared() -> Mapping[str, Mapping[str, float]]:
    text = resources.files("sottovoce_operator.products").joinpath("declared.toml").read_text(encoding="utf-8")
    biases: Mapping[str, Mapping[str, float]] = tomllib.loads(text)
    return biases


def declared_bias(fleet_size: int, product: str) -> float:
    """Return a product's bias, relative to its mean, as measured on public homes with the bounds for such a fleet."""
    return _declared()[str(fleet_size)][product]
