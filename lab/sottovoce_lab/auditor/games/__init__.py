"""Distinguishing games, each of which tests one property of a subject and returns a finding."""

from sottovoce_lab.auditor.games.books import books
from sottovoce_lab.auditor.games.canaries import canaries
from sottovoce_lab.auditor.games.low_bits import low_bits
from sottovoce_lab.auditor.games.noise import noise

__all__ = ["books", "canaries", "low_bits", "noise"]
