"""Exact sampling from a symmetric distribution on the integers that decreases on both sides of 0.

The magnitude is drawn by rejection sampling. The half line is divided into blocks of 2^m integers. A block is drawn
with probability proportional to the probability of its left end (the likeliest integer in the block), by inverting the
exact cumulative distribution. A position within the block is then drawn uniformly and accepted with a probability equal
to the ratio of its probability to that of the left end. Finally, a random sign is drawn, and minus zero is rejected
(Canonne, Kamath & Steinke 2020, Algorithms 2 and 3, use the same sign step).

Every comparison of a uniform number with a real number uses the first bits if they are sufficient, and otherwise
progressively more bits. The distribution is therefore sampled exactly, without approximation. About one in 2^47 draws
needs the slow path. The fast path assumes that exp() in float64 has a relative error of at most 2^-49, which is 8 units
in the last place.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Sequence
from decimal import Context, Decimal

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.mechanisms.noise import NoiseSource


def floor_scaled_exp(numerator: int, denominator: int, bits: int) -> int:
    """Return floor(2^bits · exp(-numerator/denominator)) for denominator > 0, 0 ≤ numerator < 1000 denominator."""
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


TABLE_BITS = 64
ACCEPT_BITS = 53


class BlockSampler(ABC):
    """Base class for exact samplers; a subclass defines the distribution.

    Args:
        noise: the source of uniform words.
        block_bits: m.
        table_bits: number of bits compared first when drawing a block. Fewer bits only make the slow path more common,
            which is useful in tests.
        accept_bits: number of bits compared first when accepting a position. Here too, fewer bits only make the slow
            path more common.
    """

    def __init__(self, noise: NoiseSource, *, block_bits: int, table_bits: int, accept_bits: int) -> None:
        self._noise = noise
        self._block_bits = block_bits
        self._table_bits = table_bits
        self._accept_bits = accept_bits
        self._table = self._first_table(table_bits)

    @abstractmethod
    def _first_table(self, bits: int) -> NDArray[np.uint64]:
        """Return `_cumulative(bits)` as an array, where bits is at most 64."""

    @abstractmethod
    def _cumulative(self, bits: int) -> Sequence[int]:
        """Return floor(2^bits F_h) for blocks h = 0, 1, … up to the first that equals 2^bits - 1; F is cumulative."""

    @property
    @abstractmethod
    def _denominator(self) -> int: ...

    @abstractmethod
    def _numerators(self, left: NDArray[np.int64], offset: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return numerators such that P[left + offset] = exp(-numerator/denominator) · P[left]."""

    def draw(self, count: int) -> NDArray[np.int64]:
        """Return independent draws, int64[count]."""
        batches: list[NDArray[np.int64]] = []
        missing = count
        while missing > 0:
            batch = self._attempt(missing + missing // 64 + 8)[:missing]
            batches.append(batch)
            missing -= len(batch)
        return np.concatenate(batches) if batches else np.empty(0, dtype=np.int64)

    def _attempt(self, count: int) -> NDArray[np.int64]:
        """Draw `count` candidates and return the accepted ones, in order."""
        block = self._draw_blocks(count)
        offset = (self._noise.random_words(count) & np.uint64((1 << self._block_bits) - 1)).astype(np.int64)
        left = block << self._block_bits
        words = self._noise.random_words(count)
        accepted = self._accept(words >> np.uint64(64 - self._accept_bits), self._numerators(left, offset))
        magnitude = left + offset
        negative = (words & np.uint64(1)).astype(bool)
        accepted &= ~(negative & (magnitude == 0))
        return np.where(negative, -magnitude, magnitude)[accepted]

    def _draw_blocks(self, count: int) -> NDArray[np.int64]:
        prefix = self._noise.random_words(count) >> np.uint64(64 - self._table_bits)
        block = np.searchsorted(self._table, prefix, side="left").astype(np.int64)
        for i in np.flatnonzero(self._table[block] == prefix):
            block[i] = self._resolve_block(int(prefix[i]))
        return block

    def _resolve_block(self, prefix: int) -> int:
        bits = self._table_bits
        while True:
            prefix, bits = self._extend(prefix), bits + 64
            table = self._cumulative(bits)
            block = bisect_left(table, prefix)
            if table[block] != prefix:
                return block

    def _accept(self, prefix: NDArray[np.uint64], numerator: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Draw from Bernoulli(exp(-numerator/denominator)), given the first bits of uniform numbers."""
        unit = 2.0**self._accept_bits
        threshold = np.exp(numerator / -float(self._denominator)) * unit
        margin = unit * 2.0**-49
        lower = prefix.astype(np.float64)
        accept = lower + 1.0 <= threshold - margin
        for i in np.flatnonzero(~accept & (lower < threshold + margin)):
            accept[i] = self._resolve_accept(int(prefix[i]), int(numerator[i]))
        return accept

    def _resolve_accept(self, prefix: int, numerator: int) -> bool:
        bits = self._accept_bits
        while True:
            prefix, bits = self._extend(prefix), bits + 64
            threshold = floor_scaled_exp(numerator, self._denominator, bits)
            if prefix != threshold:
                return prefix < threshold

    def _extend(self, prefix: int) -> int:
        return prefix << 64 | int(self._noise.random_words(1)[0])
