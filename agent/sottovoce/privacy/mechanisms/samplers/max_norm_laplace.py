"""Exact sampler for P[z] ∝ exp(-max|zᵢ|/s) on integer vectors z of a fixed length, where s is a positive integer.

This is the K-norm mechanism (Hardt & Talwar 2010) for the largest absolute entry of a vector: releases whose exact
values differ by at most Δ in that norm are Δ/s-differentially private. For vectors of length 1, it is the discrete
Laplace distribution.

Method: let q = exp(-1/s), and let c be the length. Draw a radius R with P[R = r] ∝ (2r + 1)ᶜ qʳ, and then z uniformly
from the (2r + 1)ᶜ vectors in {-r … r}ᶜ. Then P[z] ∝ Σ qʳ over r ≥ max|zᵢ|, which is ∝ q^max|zᵢ|. The sum of c + 1
geometric numbers has P[r] ∝ (r + 1)(r + 2) … (r + c) qʳ; accepting it with probability Π (2r + 1)/(2r + 2i), i = 1 … c,
gives it the distribution of R. Both steps are combined: zᵢ + r is drawn uniformly from the first 2r + 2i non-negative
integers, and everything is redrawn unless all of these numbers are at most 2r.
"""

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.mechanisms.noise import NoiseSource
from sottovoce.privacy.mechanisms.samplers.discrete_laplace import MAX_SCALE, DiscreteLaplaceSampler


class MaxNormLaplaceSampler:
    """Sampler for vectors of a fixed length, with a fixed scale.

    Args:
        scale: s, an integer from 1 to 2^54 / (length + 1); an entry beyond 2^63 then has a probability below e^-500.
        length: c, number of entries in a vector.
        noise: the source of uniform words.
    """

    def __init__(self, scale: int, length: int, noise: NoiseSource) -> None:
        if length < 1 or not 1 <= scale <= max_scale(length):
            raise ValueError(f"scale must be an integer from 1 to {max_scale(length)}, got {scale}")
        self.length = length
        self._noise = noise
        self._laplace = DiscreteLaplaceSampler(scale, noise)

    def draw(self, count: int) -> NDArray[np.int64]:
        """Return independent vectors, int64[count, length]."""
        batches: list[NDArray[np.int64]] = []
        missing = count
        while missing > 0:
            batch = self._attempt(missing)
            batches.append(batch)
            missing -= len(batch)
        return np.concatenate(batches) if batches else np.empty((0, self.length), dtype=np.int64)

    def _attempt(self, count: int) -> NDArray[np.int64]:
        """Draw `count` candidate vectors and return the accepted ones, in order."""
        radius = self._geometric(count * (self.length + 1)).reshape(count, -1).sum(axis=1, keepdims=True)
        candidates = _uniform_below(2 * (radius + np.arange(1, self.length + 1)), self._noise)
        vectors: NDArray[np.int64] = (candidates - radius)[(candidates <= 2 * radius).all(axis=1)]
        return vectors

    def _geometric(self, count: int) -> NDArray[np.int64]:
        """Return draws with P[g] ∝ exp(-g/s), g = 0, 1, …: a Laplace draw x if it is not negative, otherwise -x - 1."""
        draws = self._laplace.draw(count)
        return np.where(draws < 0, ~draws, draws)


def max_scale(length: int) -> int:
    """Return the largest scale for vectors with `length` entries."""
    return MAX_SCALE // (length + 1)


def _uniform_below(limits: NDArray[np.int64], noise: NoiseSource) -> NDArray[np.int64]:
    """Return a uniform number on 0 … limit - 1 for each positive limit; words below 2^64 mod limit are redrawn."""
    bounds = limits.ravel().astype(np.uint64)
    draws = np.empty_like(bounds)
    missing = np.arange(bounds.size)
    while missing.size:
        words, bound = noise.random_words(missing.size), bounds[missing]
        accepted = words >= (~bound + np.uint64(1)) % bound
        draws[missing[accepted]] = words[accepted] % bound[accepted]
        missing = missing[~accepted]
    return draws.astype(np.int64).reshape(limits.shape)
