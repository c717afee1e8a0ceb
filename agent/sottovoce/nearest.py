"""The known name that somebody probably meant."""

from collections.abc import Iterable


def nearest(word: str, known: Iterable[str], least: float = 0.6) -> str | None:
    """The most similar one; None when none is similar enough.

    Args:
        word: what was written.
        known: names there are.
        least: similarity, from 0, any, to 1, equal.
    """
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, list(known), 1, least)), None)
