"""Errors for invalid configuration values, and suggestions for misspelt names."""

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from itertools import takewhile
from typing import ParamSpec, TypeVar

from sottovoce.errors import UsageError

P = ParamSpec("P")
R = TypeVar("R")

_MIN_SIMILARITY = 0.66
"""Minimum similarity, from 0 to 1, between a misspelt word and a suggested name; allows one wrong letter in three."""


def suggest_name(word: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar to a misspelt word; None if no name is similar enough.

    Dotted names are compared part by part, so two keys are not similar merely because they share a table name. A word
    without a dot is compared with the last part of each name.
    """
    lowered = word.lower()
    table, _, key = lowered.rpartition(".")
    scores = (
        (_similarity(table, key, name.lower()), _common_prefix_length(lowered, name.lower()), name) for name in known
    )
    similarity, _, best_match = max(scores, default=(0.0, 0, ""))
    return best_match if similarity >= _MIN_SIMILARITY else None


def explain_arguments(synonyms: Mapping[str, str]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator for a public function, which explains wrong argument names to users of other libraries.

    Args:
        synonyms: the function's own argument names, by the names that other libraries use.

    The function then raises a UsageError, instead of a TypeError, for arguments that it does not have or lacks.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            from inspect import signature  # only workstations call these functions

            parameters = signature(function)
            try:
                parameters.bind(*args, **kwargs)
            except TypeError as error:
                raise UsageError(
                    f"{function.__name__}: {error}{_argument_hint(kwargs, parameters.parameters)}"
                ) from None
            return function(*args, **kwargs)

        def _argument_hint(given: Mapping[str, object], known: Iterable[str]) -> str:
            unknown = [name for name in given if name not in known]
            pairs = [(name, synonyms.get(name) or suggest_name(name, known)) for name in unknown]
            hints = [f"{known_name}= instead of {name}=" for name, known_name in pairs if known_name is not None]
            return f"; use {', '.join(hints)}" if hints else f"; its arguments are {', '.join(known)}"

        return call

    return decorate


def _common_prefix_length(first: str, second: str) -> int:
    """Return the length of two words' common prefix, which breaks ties between equally similar names."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


def _similarity(table: str, key: str, name: str) -> float:
    name_table, _, name_key = name.rpartition(".")
    return min(_ratio(key, name_key), _ratio(table, name_table) if table else 1.0)


def _ratio(first: str, second: str) -> float:
    from difflib import SequenceMatcher

    return SequenceMatcher(None, first, second).ratio()


LARGEST = 1e9  # upper bound that excludes infinities and NaN from ordinary numbers


def invalid_key(key: str, problem: str) -> ValueError:
    """Return an error that identifies the key in the same format as msgspec's errors."""
    return ValueError(f"{problem} - at `$.{key}`")
