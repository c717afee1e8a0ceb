"""The games: each asks one question of a subject and returns a finding."""

from sottovoce.audit.games.books import books
from sottovoce.audit.games.canaries import canaries
from sottovoce.audit.games.low_bits import low_bits
from sottovoce.audit.games.noise import noise

__all__ = ["books", "canaries", "low_bits", "noise"]
