"""Exact sampler of the law P[z] ∝ exp(-max|zᵢ|/s) on the integer vectors of one length, s a positive integer.

It is the K-norm mechanism (Hardt & Talwar 2010) for a vector's largest absolute entry: releases whose exact values
differ by at most Δ in that norm are Δ/s-differentially private. For vectors of length 1 it is the discrete Laplace law.

Method: let q = exp(-1/s) and c be the length. A radius R with P[R = r] ∝ (2r + 1)ᶜ qʳ, and then z uniform among
the (2r + 1)ᶜ vectors of {-r … r}ᶜ, give P[z] ∝ Σ qʳ over r ≥ max|zᵢ|, which is ∝ q^max|zᵢ|. The sum of c + 1
geometric numbers has P[r] ∝ (r + 1)(r + 2) … (r + c) qʳ; keeping it with probability Π (2r + 1)/(2r + 2i), i = 1 … c,
makes its law that of R. Both are done at once: zᵢ + r is drawn uniformly from the 2r + 2i integers from 0 on, and
everything is drawn again unless all of these are 2r at most.
"""

import numpy as np
from numpy.typing import NDArray

from sottovoce.vault.discrete_laplace import MAX_SCALE, DiscreteLaplaceSampler
from sottovoce.vault.noise import NoiseSource


class MaxNormLaplaceSampler:
    """Sampler for vectors of one length from the law with one scale.

    Args:
        scale: s, an integer from 1 to 2^54 / (length + 1): an entry beyond 2^63 then has a probability below e^-500.
        length: c, entries of a vector.
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
        kept: list[NDArray[np.int64]] = []
        missing = count
        while missing > 0:
            batch = self._attempt(missing)
            kept.append(batch)
            missing -= len(batch)
        return np.concatenate(kept) if kept else np.empty((0, self.length), dtype=np.int64)

    def _attempt(self, count: int) -> NDArray[np.int64]:
        """Return up to `count` vectors: those that survive rejection, in order."""
        radius = self._geometric(count * (self.length + 1)).reshape(count, -1).sum(axis=1, keepdims=True)
        places = _uniform_below(2 * (radius + np.arange(1, self.length + 1)), self._noise)
        vectors: NDArray[np.int64] = (places - radius)[(places <= 2 * radius).all(axis=1)]
        return vectors

    def _geometric(self, count: int) -> NDArray[np.int64]:
        """Return draws with P[g] ∝ exp(-g/s), g = 0, 1, …: a Laplace number x if not negative, else -x - 1."""
        drawn = self._laplace.draw(count)
        return np.where(drawn < 0, ~drawn, drawn)


def max_scale(length: int) -> int:
    """Return the largest scale for vectors with `length` entries."""
    return MAX_SCALE // (length + 1)


def _uniform_below(limits: NDArray[np.int64], noise: NoiseSource) -> NDArray[np.int64]:
    """Return uniform numbers on 0 … limit - 1, for each positive limit; words below 2^64 mod limit are drawn again."""
    bounds = limits.ravel().astype(np.uint64)
    drawn = np.empty_like(bounds)
    missing = np.arange(bounds.size)
    while missing.size:
        words, bound = noise.words(missing.size), bounds[missing]
        kept = words >= (~bound + np.uint64(1)) % bound
        drawn[missing[kept]] = words[kept] % bound[kept]
        missing = missing[~kept]
    return drawn.astype(np.int64).reshape(limits.shape)
