"""Exact sampler for the discrete Laplace distribution: P[x] ∝ exp(-|x|/s), for integers x and a positive integer s.

See block_sampler.py for the method. Blocks contain 2^m integers, with s/2^m near 2^3. Releases whose exact values
differ by at most Δ in L1 norm are Δ/s-differentially private: the ratio of two probabilities is exp(-(|a| - |b|)/s).
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.mechanisms.noise import NoiseSource
from sottovoce.privacy.mechanisms.samplers.block_sampler import ACCEPT_BITS, TABLE_BITS, BlockSampler, floor_scaled_exp

MAX_SCALE = 2**54


class DiscreteLaplaceSampler(BlockSampler):
    """Sampler for the discrete Laplace distribution with a fixed scale.

    Args:
        scale: s, an integer from 1 to 2^54.
        noise: the source of uniform words.
        table_bits: see BlockSampler.
        accept_bits: see BlockSampler.
    """

    def __init__(
        self, scale: int, noise: NoiseSource, *, table_bits: int = TABLE_BITS, accept_bits: int = ACCEPT_BITS
    ) -> None:
        if not 1 <= scale <= MAX_SCALE:
            raise ValueError(f"scale must be an integer from 1 to {MAX_SCALE}, got {scale}")
        self.scale = scale
        block_bits = max(0, scale.bit_length() - 4)
        super().__init__(noise, block_bits=block_bits, table_bits=table_bits, accept_bits=accept_bits)

    def _first_table(self, bits: int) -> NDArray[np.uint64]:
        return _table(self.scale, self._block_bits, bits)

    def _cumulative(self, bits: int) -> tuple[int, ...]:
        return _cumulative(self.scale, self._block_bits, bits)

    @property
    def _denominator(self) -> int:
        return self.scale

    def _numerators(self, left: NDArray[np.int64], offset: NDArray[np.int64]) -> NDArray[np.int64]:
        return offset


@lru_cache(maxsize=4)
def _table(scale: int, block_bits: int, bits: int) -> NDArray[np.uint64]:
    return np.array(_cumulative(scale, block_bits, bits), dtype=np.uint64)


@lru_cache(maxsize=4)
def _cumulative(scale: int, block_bits: int, bits: int) -> tuple[int, ...]:
    """Return floor(2^bits (1 - r^(h+1))) with r = exp(-2^m/s); r^(h+1) is irrational, so there is never a tie."""
    table: list[int] = []
    while not table or table[-1] < (1 << bits) - 1:
        survival = floor_scaled_exp((len(table) + 1) << block_bits, scale, bits)
        table.append((1 << bits) - 1 - survival)
    return tuple(table)
