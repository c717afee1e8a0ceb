"""Sums of one-vs-all gradients with noise for a pure ε: gradient perturbation, Hegedűs & Jelasity 2017.

A record x of L1 norm 1 with label y has the gradient v_k = -s_k y⁽ᵏ⁾ x in copy k, with a slope s_k between 0 and 1.

- The L1 norm of each copy of v is at most 1, and two records' copies differ by at most 2. The law `copies`, from the
  paper, therefore adds noise of scale 2c/ε to each of the c copies, each at a cost of ε/c.
- The L1 norm of all copies together is at most c, and two records' vectors may differ by the full 2c: at the model 0,
  every slope of the hinge loss is 1, and x and x′ may have no features in common. The L1 norm of the whole vector
  therefore requires the same noise.
- Σ_j max_k |v_kj| = Σ_j |x_j| max_k s_k is at most 1 for every c. In this norm, two records' vectors differ by at most
  2. The law `joint` adds noise of density ∝ exp(-(ε/2) Σ_j max_k |z_kj|), which costs ε by the triangle inequality. Its
  variance per value is 4(c + 1)(c + 2)/(3ε²), whereas that of `copies` is 8c²/ε²: `joint` has 4.5 times less variance
  for ten classes, and the same variance for two classes, where c = 1.

Rows are rounded toward zero on the grid, which never increases a norm, and the integers are limited to
Σ_j max_k |v_kj| ≤ 1, from which both sensitivities follow. The sum consists of integers, and the noise is exact and
independent of the sum.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import PrivacyError
from sottovoce.privacy.accounting.events import PureRelease
from sottovoce.privacy.mechanisms.clipped_sum import Batches
from sottovoce.privacy.mechanisms.noise import NoiseSource
from sottovoce.privacy.mechanisms.samplers.discrete_laplace import DiscreteLaplaceSampler
from sottovoce.privacy.mechanisms.samplers.max_norm_laplace import MaxNormLaplaceSampler, max_scale
from sottovoce.privacy.perturbation.laplace import grid_exponent

Rows = NDArray[np.float64]
Law = Literal["copies", "joint", "none"]

_EXACT_EXPONENT = -30
_MIN_EPSILON = 2.0**-60


@dataclass(frozen=True, slots=True)
class PureSum:
    """Mechanism that releases a gradient sum together with the number of records in the sum.

    The number of records is public because, under replace-one, it is equal for all neighbours.

    Attributes:
        copies: c, number of one-vs-all models.
        features: d, number of features.
        exponent: the grid step is 2**exponent.
        law: `copies` for discrete Laplace noise; `joint` for noise from max_norm_laplace.py, drawn jointly for a
            feature's copies; `none` for no noise.
        scale: noise scale, in grid units; 0 for no noise.
        epsilon: charge per release; infinite if there is no guarantee.
    """

    copies: int
    features: int
    exponent: int
    law: Law
    scale: int
    epsilon: float

    def __post_init__(self) -> None:
        """Raise PrivacyError if a release would cost more than is charged for it."""
        _ = self.event

    @property
    def size(self) -> int:
        """Number of integers in a release: c · d noisy values, and the number of records."""
        return self.copies * self.features + 1

    @property
    def unit(self) -> int:
        """The norm 1 in grid units."""
        return 1 << -self.exponent

    @property
    def event(self) -> PureRelease:
        """Cost of one release."""
        return PureRelease(self.law, self.copies, self.features, _sensitivity(self.law, self.copies, self.unit),
                           self.scale, self.epsilon)  # fmt: skip

    def apply(self, raw: Batches, noise: NoiseSource) -> NDArray[np.int64]:
        """See Mechanism.apply; `raw` yields batches float64[n, c · d] with one row per record."""
        total, count = np.zeros((self.copies, self.features), dtype=np.int64), 0
        for rows in raw:
            total += bound_to_grid(rows.reshape(-1, self.copies, self.features), self.exponent).sum(axis=0)
            count += len(rows)
        if self.law == "copies":
            total += DiscreteLaplaceSampler(self.scale, noise).draw(total.size).reshape(total.shape)
        elif self.law == "joint":
            total += MaxNormLaplaceSampler(self.scale, self.copies, noise).draw(self.features).T
        return np.append(total.ravel(), count)


def calibrate_pure_sum(
    *, copies: int, features: int, law: Literal["copies", "joint"], epsilon: float, charged_epsilon: float
) -> PureSum:
    """Return the mechanism with the least noise of `law` for which a release costs at most ε.

    Args:
        copies: c.
        features: d.
        law: see PureSum.
        epsilon: ε of the release; infinity for no noise.
        charged_epsilon: ε charged for the release.

    Raises:
        PrivacyError: if the grid cannot hold the required noise, or if the charge is less than the cost.
    """
    if math.isinf(epsilon):
        return PureSum(copies, features, _EXACT_EXPONENT, "none", 0, charged_epsilon)
    excess = PrivacyError(
        f"ε = {epsilon:g} for one visit requires more noise than the grid allows; increase privacy.epsilon or "
        "reduce learner.visits"
    )
    if epsilon < _MIN_EPSILON:
        raise excess
    exponent = grid_exponent(features, epsilon)
    scale = math.ceil(_sensitivity(law, copies, 1 << -exponent) / Fraction(epsilon))
    if scale > max_scale(copies):
        raise excess
    return PureSum(copies, features, exponent, law, scale, charged_epsilon)


def bound_to_grid(rows: Rows, exponent: int) -> NDArray[np.int64]:
    """Return gradients in grid units, each bounded to Σ_j max_k |v_kj| ≤ 1, rounded toward zero.

    The result for a row depends only on that row, to the last bit.

    Args:
        rows: float64[n, c, d]; a row that is not finite counts as zero.
        exponent: the grid step is 2**exponent.

    Returns:
        int64[n, c, d].
    """
    unit = 2.0**-exponent
    with np.errstate(over="ignore", invalid="ignore"):  # a warning would reveal something about a record
        units = np.trunc(rows * unit)
        units[~np.isfinite(_joint_norms(units))] = 0.0
        while len(too_long := np.flatnonzero(_joint_norms(units) > unit)):
            factors = unit / _joint_norms(units[too_long]) * (1.0 - 2.0**-40)
            units[too_long] = np.trunc(units[too_long] * factors[:, np.newaxis, np.newaxis])
    return units.astype(np.int64)


def _joint_norms(units: Rows) -> NDArray[np.float64]:
    """Return Σ_j max_k |v_kj| of each row, float64[n]; exact below 2^53, which covers every accepted length."""
    lengths: NDArray[np.float64] = np.add.reduce(np.ascontiguousarray(np.abs(units).max(axis=1)), axis=1)
    return lengths


def _sensitivity(law: Law, copies: int, unit: int) -> int:
    """Return the largest distance between two neighbours' sums in the law's norm, in grid units."""
    return 2 * unit * (copies if law == "copies" else 1)
