"""Distinguishing games, each of which tests one property of a subject and returns a finding."""

from sottovoce_lab.auditor.games.books import play_ledger_game
from sottovoce_lab.auditor.games.canaries import play_canary_game
from sottovoce_lab.auditor.games.low_bits import play_low_bits_game
from sottovoce_lab.auditor.games.noise import play_noise_game

__all__ = ["play_canary_game", "play_ledger_game", "play_low_bits_game", "play_noise_game"]
