"""Suggest a known name that a user probably misspelt."""

from collections.abc import Iterable
from itertools import takewhile

_TYPO = 0.66
"""Minimum similarity, from 0 to 1, between a word and the name that it misspells: one wrong letter in three."""


def suggestion(word: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar to a misspelt word; None if no name is similar enough.

    Dotted names are compared part by part, so two keys are not similar merely because they share a table name. A word
    without a dot is compared with the last part of each name.
    """
    written = word.lower()
    table, _, own = written.rpartition(".")
    scores = ((_similarity(table, own, one.lower()), _common_prefix_length(written, one.lower()), one) for one in known)
    best, _, name = max(scores, default=(0.0, 0, ""))
    return name if best >= _TYPO else None


def _common_prefix_length(word: str, other: str) -> int:
    """Return the length of two words' common prefix, which breaks ties between equally similar names."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(word, other, strict=False)))


def _similarity(table: str, own: str, known: str) -> float:
    known_table, _, known_own = known.rpartition(".")
    return min(_ratio(own, known_own), _ratio(table, known_table) if table else 1.0)


def _ratio(word: str, other: str) -> float:
    from difflib import SequenceMatcher

    return SequenceMatcher(None, word, other).ratio()
