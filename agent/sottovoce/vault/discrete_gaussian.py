"""An exact sampler of the discrete Gaussian on the integers: P[x] ∝ exp(-x²/2σ²), σ a positive integer.

The magnitude is drawn by rejection. The half line is cut into blocks of 2^m integers, with σ/2^m near 2^10; a block is
drawn with probability proportional to the law's value at its left end (its largest value), by inverting the exact
cumulative distribution; a place within the block is drawn uniformly and kept with probability
exp(-(y² - left²)/2σ²). A random sign follows, and minus zero is rejected (Canonne, Kamath & Steinke 2020, Algorithm 3,
uses the same sign step).

Every comparison of a uniform number with a real one is decided on the first bits where they suffice, and on ever more
bits where they do not, so that the law is exact: no draw is an approximation. About one in 2^47 draws needs the slow
path. The fast path relies on exp() in float64 being right to 2^-49 relative, which is 8 units in the last place.
"""

from bisect import bisect_left
from decimal import Context, Decimal
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sottovoce.vault.noise import NoiseSource

MAX_SIGMA = 2**26
_GUARD_BITS = 128
_ACCEPT_BITS = 53


class DiscreteGaussianSampler:
    """Draws from the discrete Gaussian of one σ.

    Args:
        sigma: standard deviation parameter, an integer from 1 to 2^26.
        noise: the source of uniform words.
        table_bits: bits compared at first when a block is drawn. Fewer only make the slow path common, for tests.
        accept_bits: bits compared at first when a place is kept. The same.
    """

    def __init__(
        self, sigma: int, noise: NoiseSource, *, table_bits: int = 64, accept_bits: int = _ACCEPT_BITS
    ) -> None:
        if not 1 <= sigma <= MAX_SIGMA:
            raise ValueError(f"sigma must be an integer from 1 to {MAX_SIGMA}, got {sigma}")
        self.sigma = sigma
        self._noise = noise
        self._block_bits = max(0, sigma.bit_length() - 11)
        self._table_bits = table_bits
        self._accept_bits = accept_bits
        self._table = np.array(_cumulative(sigma, self._block_bits, table_bits), dtype=np.uint64)

    def draw(self, count: int) -> NDArray[np.int64]:
        """int64[count] of independent draws."""
        kept: list[NDArray[np.int64]] = []
        missing = count
        while missing > 0:
            batch = self._attempt(missing + missing // 64 + 8)[:missing]
            kept.append(batch)
            missing -= len(batch)
        return np.concatenate(kept) if kept else np.empty(0, dtype=np.int64)

    def _attempt(self, count: int) -> NDArray[np.int64]:
        """Up to `count` draws: those that survive rejection, in order."""
        block = self._blocks(count)
        offset = (self._noise.words(count) & np.uint64((1 << self._block_bits) - 1)).astype(np.int64)
        left = block << self._block_bits
        words = self._noise.words(count)
        kept = self._accept(words >> np.uint64(64 - self._accept_bits), offset * (2 * left + offset))
        magnitude = left + offset
        negative = (words & np.uint64(1)).astype(bool)
        kept &= ~(negative & (magnitude == 0))
        return np.where(negative, -magnitude, magnitude)[kept]

    def _blocks(self, count: int) -> NDArray[np.int64]:
        prefix = self._noise.words(count) >> np.uint64(64 - self._table_bits)
        block = np.searchsorted(self._table, prefix, side="left").astype(np.int64)
        for i in np.flatnonzero(self._table[block] == prefix):
            block[i] = self._resolve_block(int(prefix[i]))
        return block

    def _resolve_block(self, prefix: int) -> int:
        bits = self._table_bits
        while True:
            prefix, bits = self._extend(prefix), bits + 64
            table = _cumulative(self.sigma, self._block_bits, bits)
            block = bisect_left(table, prefix)
            if table[block] != prefix:
                return block

    def _accept(self, prefix: NDArray[np.uint64], numerator: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Bernoulli(exp(-numerator/2σ²)), given the first bits of a uniform number."""
        unit = 2.0**self._accept_bits
        threshold = np.exp(numerator / (-2.0 * self.sigma**2)) * unit
        doubt = unit * 2.0**-49
        below = prefix.astype(np.float64)
        accept = below + 1.0 <= threshold - doubt
        for i in np.flatnonzero(~accept & (below < threshold + doubt)):
            accept[i] = self._resolve_accept(int(prefix[i]), int(numerator[i]))
        return accept

    def _resolve_accept(self, prefix: int, numerator: int) -> bool:
        bits = self._accept_bits
        while True:
            prefix, bits = self._extend(prefix), bits + 64
            threshold = _floor_scaled_exp(numerator, 2 * self.sigma**2, bits)
            if prefix != threshold:
                return prefix < threshold

    def _extend(self, prefix: int) -> int:
        return prefix << 64 | int(self._noise.words(1)[0])


@lru_cache(maxsize=4)
def _cumulative(sigma: int, block_bits: int, bits: int) -> tuple[int, ...]:
    """floor(2^bits F_h) for blocks h = 0, 1, … up to the first that equals 2^bits - 1."""
    scale = bits + _GUARD_BITS
    ratio = _floor_scaled_exp(4**block_bits, 2 * sigma**2, scale)
    square = ratio * ratio >> scale
    weight, partial, sums = 1 << scale, 0, []
    while weight:
        partial += weight
        sums.append(partial)
        weight = weight * ratio >> scale
        ratio = ratio * square >> scale
    table: list[int] = []
    for partial in sums:
        value, rest = divmod(partial << bits, sums[-1])
        # Truncation makes weight h < 2^16 short by less than 2h² + 2h units, hence every sum by less than 2^48, of a
        # total above 2^scale: 2^-80 of a unit of `value`. Nearer than that to an integer, the floor would be a guess;
        # of all tables that there are, hardly one should come so near.
        margin = sums[-1] >> (_GUARD_BITS - 50)
        last = value >= (1 << bits) - 1
        if partial != sums[-1] and (rest <= margin or (rest >= sums[-1] - margin and not last)):
            raise ArithmeticError(f"the cumulative table of sigma {sigma} needs more guard bits")
        table.append(min(value, (1 << bits) - 1))
        if table[-1] == (1 << bits) - 1:
            break
    return tuple(table)


def _floor_scaled_exp(numerator: int, denominator: int, bits: int) -> int:
    """floor(2^bits · exp(-numerator/denominator)) for integers denominator > 0 and 0 ≤ numerator < 1000 denominator."""
    if numerator == 0:
        return 1 << bits
    digits = bits // 3 + 30
    while True:
        context = Context(prec=digits)
        value = context.exp(context.divide(Decimal(-numerator), Decimal(denominator)))
        scaled = context.multiply(value, Decimal(1 << bits))
        slack = context.scaleb(scaled, 4 - digits)
        low, high = int(context.subtract(scaled, slack)), int(context.add(scaled, slack))
        if low == high:
            return low
        digits *= 2
