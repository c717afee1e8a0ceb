"""Sampling of a release's records: the vault draws them after the charge, from its own randomness, in secret.

Rates are fractions of public integers, so that a draw is exact and the charge is for the draw that was made.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sottovoce.vault.noise import NoiseSource

Places = NDArray[np.int64]
_WORDS = 2**64


class Sampling(Protocol):
    """Distribution of batches."""

    def draw(self, count: int, noise: NoiseSource) -> Places:
        """Draw a batch's places among `count` records, int64[b], in ascending order except in `WithReplacement`."""
        ...


@dataclass(frozen=True, slots=True)
class Poisson:
    """Sampling that includes each record independently, with probability batch / of.

    Attributes:
        batch: numerator of the rate; the expected batch size on a device that holds `of` records.
        of: its denominator, at least `batch`.
    """

    batch: int
    of: int

    def draw(self, count: int, noise: NoiseSource) -> Places:
        """See Sampling.draw. The rate is rounded down to a multiple of 2^-64, which costs no more than the rate."""
        limit = np.uint64(min(_WORDS - 1, _WORDS * self.batch // self.of))
        places = np.arange(count) if self.batch == self.of else np.flatnonzero(noise.words(count) < limit)
        return places.astype(np.int64)


@dataclass(frozen=True, slots=True)
class FixedSize:
    """Sampling of exactly `batch` different records, every batch equally likely; all records if there are no more.

    Attributes:
        batch: b.
    """

    batch: int

    def draw(self, count: int, noise: NoiseSource) -> Places:
        """See Sampling.draw: the records with the smallest random words, which tie no more often than once in 2^60."""
        if count <= self.batch:
            return np.arange(count, dtype=np.int64)
        chosen: Places = np.sort(np.argpartition(noise.words(count), self.batch - 1)[: self.batch]).astype(np.int64)
        return chosen


@dataclass(frozen=True, slots=True)
class WithReplacement:
    """Sampling by `batch` independent uniform draws, "i.i.d. batches" in papers. None of our guarantees rests on it.

    Attributes:
        batch: b.
    """

    batch: int

    def draw(self, count: int, noise: NoiseSource) -> Places:
        """See Sampling.draw; a record may occur more than once."""
        if count == 0:
            return np.empty(0, dtype=np.int64)
        return (noise.words(self.batch) % np.uint64(count)).astype(np.int64)
