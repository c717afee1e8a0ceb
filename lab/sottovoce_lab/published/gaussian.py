"""Noise and clipping exactly as printed in papers, for reproducing their algorithms.

Every such release is charged as infinite: the scale may depend on the records, clipping may be missing or applied once
to a whole batch, or the printed ε may cover only one round. For the papers' claims and their errors, see the
privacy statement of the terms that use this noise.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sottovoce.privacy.mechanisms.clipped_sum import Batches
from sottovoce.privacy.mechanisms.noise import NoiseSource
from sottovoce.privacy.mechanisms.samplers.discrete_gaussian import DiscreteGaussianSampler

_EXPONENT = -40  # finer than any comparison with a paper requires; sums reach 2^20
_SAMPLER_SIGMA = 2**20  # draws have this σ and are then rescaled to the requested σ
_MAX_VALUE = 2.0**60


@dataclass(frozen=True, slots=True)
class PublishedGaussian:
    """Mechanism that releases B · (ḡ + N) for a batch's mean gradient ḡ; the learner then divides by B.

    Attributes:
        size: number of values in a release, P.
        batch: B, the batch size.
        clip: L2 clip norm; None for no clipping.
        clip_target: `example` to clip each example's gradient; `batch` to clip the batch mean once.
        sigma: standard deviation of each coordinate of N, or of N / ‖ḡ‖ if `has_relative_noise`; 0 for no noise.
        has_relative_noise: whether the noise is proportional to the norm of the gradient that it hides (AdaD²P).
        exponent: the grid step is 2**exponent.
    """

    size: int
    batch: int
    clip: float | None
    clip_target: Literal["example", "batch"]
    sigma: float
    has_relative_noise: bool = False
    exponent: int = _EXPONENT

    @property
    def clips_examples(self) -> bool:
        """Whether each example's gradient is clipped, which requires one row per example rather than their sum."""
        return self.clip is not None and self.clip_target == "example"

    def apply(self, raw: Batches, noise: NoiseSource) -> NDArray[np.int64]:
        """See Mechanism.apply; `raw` yields batches float64[n, P] with one row per example, or a row with their sum."""
        total = np.zeros(self.size)
        with np.errstate(over="ignore", invalid="ignore"):  # a warning would reveal something about a record
            for rows in raw:
                clipped = _clip_rows(rows, self.clip) if self.clips_examples else rows
                total += np.add.reduce(np.nan_to_num(clipped), axis=0)
            mean = total / self.batch
            if self.clip_target == "batch":
                mean = _clip_rows(mean[np.newaxis], self.clip)[0]
        units: NDArray[np.int64] = np.rint(
            np.clip(np.ldexp(mean * self.batch, -self.exponent), -_MAX_VALUE, _MAX_VALUE)
        ).astype(np.int64)
        scale = self.sigma * (float(np.linalg.norm(mean)) if self.has_relative_noise else 1.0) * self.batch
        sigma = min(math.ldexp(scale, -self.exponent), _MAX_VALUE)
        if sigma == 0:
            return units
        # The sampler has a fixed σ because each σ requires a costly table.
        draws = DiscreteGaussianSampler(_SAMPLER_SIGMA, noise).draw(self.size)
        noise_units = np.rint(np.clip(draws * (sigma / _SAMPLER_SIGMA), -_MAX_VALUE, _MAX_VALUE))
        released: NDArray[np.int64] = units + noise_units.astype(np.int64)
        return released


def _clip_rows(rows: NDArray[np.float64], clip: float | None) -> NDArray[np.float64]:
    """Return g · min(1, C/‖g‖) for each row g."""
    if clip is None:
        return rows
    norms = np.sqrt(np.add.reduce(rows * rows, axis=1, keepdims=True))
    clipped: NDArray[np.float64] = rows * np.minimum(1.0, clip / np.maximum(norms, clip))
    return clipped
