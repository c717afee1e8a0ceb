"""The few coefficients that `average` releases for a device's vector, based on its difference from a public profile.

Much about a mean is publicly known: load profiles in different countries have similar shapes, and a day's profile is
smooth. Using public knowledge costs no privacy, and a coefficient that is not released adds no noise.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.kernels.harmonics import harmonic_waves

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Profile:
    """A public map between vectors and coefficients, which is linear except for clipping.

    With harmonics, the coefficients are those of the orthonormal basis 1, cos and sin of the first K frequencies. The
    first coefficient is the level and the others are the shape, and the two are clipped separately. All coefficients
    get the same noise, so the level is first scaled by λ = √(C_s / (√(2K) C_l)), which minimises the mean squared
    error.

    Attributes:
        width: the vector length, d.
        clip: the L2 bound on the difference from the prior; with harmonics, the bound C_l on its level.
        prior: d numbers to subtract before clipping and to add to the result; empty means zeros.
        harmonics: the number of frequencies K; None releases the d numbers themselves.
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
        """The root mean squared error per number in the vector if each coefficient has noise with σ = 1."""
        stretch, _ = self._stretch_and_shape_clip
        return math.sqrt((stretch**-2 + self.size - 1) / self.width)

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
