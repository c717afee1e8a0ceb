"""Sampling of the records that a release reads.

The vault draws each sample in secret, after the charge, with its own randomness. Sample rates are fractions of public
integers, so the sampling is exactly the one that is charged.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.mechanisms.noise import NoiseSource

Positions = NDArray[np.int64]
_WORDS = 2**64


class Sampling(Protocol):
    """A distribution over batches."""

    def draw(self, count: int, noise: NoiseSource) -> Positions:
        """Sample the positions of a batch among `count` records, int64[b], ascending except in `WithReplacement`."""
        ...


@dataclass(frozen=True, slots=True)
class Poisson:
    """Sampling that includes each record independently with probability batch / of.

    Attributes:
        batch: numerator of the sample rate; the expected batch size on a device with `of` records.
        of: denominator of the sample rate, at least `batch`.
    """

    batch: int
    of: int

    def draw(self, count: int, noise: NoiseSource) -> Positions:
        """See Sampling.draw. The rate is rounded down to a multiple of 2^-64, which does not increase the cost."""
        limit = np.uint64(min(_WORDS - 1, _WORDS * self.batch // self.of))
        positions = np.arange(count) if self.batch == self.of else np.flatnonzero(noise.random_words(count) < limit)
        return positions.astype(np.int64)


@dataclass(frozen=True, slots=True)
class FixedSize:
    """Sampling of `batch` distinct records, with every batch equally likely; of all records if there are fewer.

    Attributes:
        batch: b, the batch size.
    """

    batch: int

    def draw(self, count: int, noise: NoiseSource) -> Positions:
        """See Sampling.draw. Choose the records with the smallest random words; ties occur at most once in 2^60."""
        if count <= self.batch:
            return np.arange(count, dtype=np.int64)
        positions: Positions = np.sort(np.argpartition(noise.random_words(count), self.batch - 1)[: self.batch]).astype(
            np.int64
        )
        return positions


@dataclass(frozen=True, slots=True)
class WithReplacement:
    """Sampling by `batch` independent uniform draws ("i.i.d. batches" in papers), on which no guarantee relies.

    Attributes:
        batch: b, the batch size.
    """

    batch: int

    def draw(self, count: int, noise: NoiseSource) -> Positions:
        """See Sampling.draw; a record may occur more than once."""
        if count == 0:
            return np.empty(0, dtype=np.int64)
        return (noise.random_words(self.batch) % np.uint64(count)).astype(np.int64)
