"""Exact sampler for the discrete Gaussian on the integers: P[x] ∝ exp(-x²/2σ²), where σ is a positive integer.

See block_sampler.py for the method. Blocks contain 2^m integers, with σ/2^m near 2^10.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.mechanisms.noise import NoiseSource
from sottovoce.privacy.mechanisms.samplers.block_sampler import ACCEPT_BITS, TABLE_BITS, BlockSampler, floor_scaled_exp

MAX_SIGMA = 2**26
_GUARD_BITS = 128


class DiscreteGaussianSampler(BlockSampler):
    """Sampler for the discrete Gaussian with a fixed σ.

    Args:
        sigma: standard deviation parameter, an integer from 1 to 2^26.
        noise: the source of uniform words.
        table_bits: see BlockSampler.
        accept_bits: see BlockSampler.
    """

    def __init__(
        self, sigma: int, noise: NoiseSource, *, table_bits: int = TABLE_BITS, accept_bits: int = ACCEPT_BITS
    ) -> None:
        if not 1 <= sigma <= MAX_SIGMA:
            raise ValueError(f"sigma must be an integer from 1 to {MAX_SIGMA}, got {sigma}")
        self.sigma = sigma
        block_bits = max(0, sigma.bit_length() - 11)
        super().__init__(noise, block_bits=block_bits, table_bits=table_bits, accept_bits=accept_bits)

    def _first_table(self, bits: int) -> NDArray[np.uint64]:
        return _table(self.sigma, self._block_bits, bits)

    def _cumulative(self, bits: int) -> tuple[int, ...]:
        return _cumulative(self.sigma, self._block_bits, bits)

    @property
    def _denominator(self) -> int:
        return 2 * self.sigma**2

    def _numerators(self, left: NDArray[np.int64], offset: NDArray[np.int64]) -> NDArray[np.int64]:
        return offset * (2 * left + offset)


@lru_cache(maxsize=4)
def _table(sigma: int, block_bits: int, bits: int) -> NDArray[np.uint64]:
    return np.array(_cumulative(sigma, block_bits, bits), dtype=np.uint64)


@lru_cache(maxsize=4)
def _cumulative(sigma: int, block_bits: int, bits: int) -> tuple[int, ...]:
    """Return floor(2^bits F_h) for blocks h = 0, 1, … up to the first that equals 2^bits - 1."""
    scale = bits + _GUARD_BITS
    ratio = floor_scaled_exp(4**block_bits, 2 * sigma**2, scale)
    square = ratio * ratio >> scale
    weight, partial, sums = 1 << scale, 0, []
    while weight:
        partial += weight
        sums.append(partial)
        weight = weight * ratio >> scale
        ratio = ratio * square >> scale
    table: list[int] = []
    for partial in sums:
        value, remainder = divmod(partial << bits, sums[-1])
        # Truncation makes weight h < 2^16 too small by less than 2h² + 2h units, and therefore every sum by less than
        # 2^48, out of a total above 2^scale. This is less than 2^-80 of a unit of `value`. If the quotient were closer
        # to an integer than that, the floor would be uncertain, which is possible only for very few tables.
        margin = sums[-1] >> (_GUARD_BITS - 50)
        is_last = value >= (1 << bits) - 1
        if partial != sums[-1] and (remainder <= margin or (remainder >= sums[-1] - margin and not is_last)):
            raise ArithmeticError(f"the cumulative table of sigma {sigma} needs more guard bits")
        table.append(min(value, (1 << bits) - 1))
        if table[-1] == (1 << bits) - 1:
            break
    return tuple(table)
