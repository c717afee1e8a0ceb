"""Mean profiles: harmonics of the day, the coefficients that `average` releases, and the mean as a model.

Much is publicly known about a mean: load profiles in different countries have similar shapes, and a day's profile is
smooth. Using public knowledge costs no privacy, and a coefficient that is not released adds no noise.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sottovoce.kernels.kernel import Features, Labels, Parameters


@lru_cache(maxsize=8)
def harmonic_waves(width: int, count: int) -> NDArray[np.float64]:
    """Return an orthonormal basis of the level, then the cosine and sine of each of the first `count` frequencies.

    Args:
        width: the number of values in a row, more than 2 count.
        count: the number of frequencies.

    Returns:
        float64[1 + 2 count, width], read-only.
    """
    phases = 2 * np.pi * np.outer(np.arange(1, count + 1), np.arange(width)) / width
    waves = np.stack([np.cos(phases), np.sin(phases)], axis=1).reshape(-1, width)
    basis: NDArray[np.float64] = np.vstack([np.full(width, width**-0.5), waves * math.sqrt(2 / width)])
    basis.setflags(write=False)
    return basis


Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Profile:
    """A public map between vectors and coefficients, which is linear except for clipping.

    With harmonics, the coefficients are those of the orthonormal basis 1, cos and sin of the first K frequencies. The
    first coefficient is the level, and the others form the shape, which is clipped separately. All coefficients
    get the same noise, so the level is first scaled by λ = √(C_s / (√(2K) C_l)), which minimises the mean squared
    error.

    Attributes:
        width: the vector length, d.
        clip: the L2 bound on the difference from the prior; with harmonics, the bound C_l on its level.
        prior: d numbers to subtract before clipping and to add to the result; empty means zeros.
        harmonics: the number of frequencies K; with None, the d numbers themselves are released.
        shape_clip: the L2 bound C_s on the shape, used only with harmonics.
    """

    width: int
    clip: float
    prior: tuple[float, ...] = ()
    harmonics: int | None = None
    shape_clip: float | None = None

    @property
    def size(self) -> int:
        """The number of coefficients P, which is d without harmonics and 1 + 2K with them."""
        return self.width if self.harmonics is None else 1 + 2 * self.harmonics

    @property
    def bound(self) -> float:
        """The L2 bound on the coefficients, which with harmonics is √(λ² C_l² + C_s²)."""
        stretch, shape = self._stretch_and_shape_clip
        return math.hypot(stretch * self.clip, shape)

    @property
    def error(self) -> float:
        """The root mean squared error per vector element if each coefficient has noise with σ = 1."""
        stretch, _ = self._stretch_and_shape_clip
        return math.sqrt((stretch**-2 + self.size - 1) / self.width)

    def row(self, features: Floats, windows: NDArray[np.int64] | None) -> Floats:
        """Return the coefficients, float64[size], of the mean of the rows float64[n, width]; windows are ignored."""
        return self.coefficients(np.add.reduce(features, axis=0) / len(features))

    def coefficients(self, vector: Floats) -> Floats:
        """Return the coefficients, float64[size], of a vector, float64[width]; not finite if the vector is not.

        With harmonics, level and shape are clipped here, and the mechanism later clips all coefficients at `bound`.
        """
        difference = vector - self._public_prior
        if self.harmonics is None:
            return difference
        raw, (stretch, bound) = self._basis @ difference, self._stretch_and_shape_clip
        level, shape = np.clip(raw[:1], -self.clip, self.clip), raw[1:]
        return np.append(stretch * level, limit_norm(shape, bound))

    def vector(self, coefficients: Floats) -> Floats:
        """Return the vector with these coefficients, float64[width]."""
        if self.harmonics is None:
            return self._public_prior + coefficients
        stretch, _ = self._stretch_and_shape_clip
        return self._public_prior + np.append(coefficients[:1] / stretch, coefficients[1:]) @ self._basis

    @property
    def _public_prior(self) -> Floats:
        return np.array(self.prior) if self.prior else np.zeros(self.width)

    @property
    def _stretch_and_shape_clip(self) -> tuple[float, float]:
        """Return λ and C_s, or 1 and 0 without harmonics."""
        if self.harmonics is None or self.shape_clip is None:
            return 1.0, 0.0
        return math.sqrt(self.shape_clip / (math.sqrt(2 * self.harmonics) * self.clip)), self.shape_clip

    @property
    def _basis(self) -> Floats:
        return harmonic_waves(self.width, self.harmonics or 0)


def limit_norm(numbers: Floats, bound: float) -> Floats:
    """Return the vector, scaled down to the L2 norm `bound` if its norm is larger."""
    return numbers * min(1.0, bound / max(bound, math.sqrt(float(numbers @ numbers))))


@dataclass(frozen=True, slots=True)
class Mean:
    """A model whose parameters are an estimate of the mean vector.

    Attributes:
        features: the vector length.
    """

    features: int

    @property
    def size(self) -> int:
        """The number of parameters, P = features."""
        return self.features

    def predict(self, parameters: Parameters, features: Features) -> Labels:
        """Return zeros, int64[N, M], because there are no classes to distinguish."""
        return np.zeros((len(parameters), len(features)), dtype=np.int64)

    def loss(self, parameters: Parameters, features: Features, labels: Labels) -> NDArray[np.float64]:
        """Return half the mean squared distance to the vectors, float64[N], which is smallest at their mean."""
        differences = parameters[:, np.newaxis] - features
        losses: NDArray[np.float64] = np.mean(np.add.reduce(differences * differences, axis=2), axis=1) / 2
        return losses
