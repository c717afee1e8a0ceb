"""Messages in the words of Python callers, who pass arguments where the command line has options."""

import re
from collections.abc import Callable, Mapping
from functools import wraps
from typing import ParamSpec, TypeVar

from sottovoce.errors import MessageRefused, SottovoceError

P = ParamSpec("P")
R = TypeVar("R")

SIMULATE = {name: name for name in ("agents", "cycles", "delta", "epsilon", "learner", "seed", "topology")} | {
    "fault": "faults"
}
"""The arguments of `simulate`, by option."""
ESTIMATOR = {name: name for name in ("agents", "cycles", "delta", "epsilon", "learner")} | {"seed": "random_state"}
"""The arguments of an estimator, by option."""
_KEYS = {"noise": "privacy.noise", "fault": "faults"}
_ASSIGNMENT = re.compile(r"--set ([\w.]+)=(\[[^\]]*\]|[^\s,;:)]+)")
_OPTION = re.compile(r"--([a-z]+)(?:[ =](\[[^\]]*\]|[^\s,;:)]+))?")
_ALONE = re.compile(r"(?:omit|the option) $")


def in_arguments(text: str, arguments: Mapping[str, str]) -> str:
    """Rewrite the options in a message as arguments, and keys as entries of `settings`.

    Args:
        text: a message, such as `use --agents 8, or --set privacy.cell.min=3`.
        arguments: the names of the arguments, by option, such as SIMULATE.
    """

    def option(match: re.Match[str]) -> str:
        name, value = match[1], match[2]
        argument = arguments.get(name)
        if value is None or _ALONE.search(text[: match.start()]):
            return (argument or f'settings["{_KEYS.get(name, name)}"]') + ("" if value is None else f" {value}")
        return f"{argument}={_literal(value)}" if argument else _setting(_KEYS.get(name, name), value)

    text = _ASSIGNMENT.sub(lambda match: _setting(match[1], match[2]), text)
    return _OPTION.sub(option, text)


def _setting(key: str, value: str) -> str:
    return f'settings={{"{key}": {_literal(value)}}}'


def _literal(value: str) -> str:
    """Return an option's value as Python writes it."""
    if value in ("true", "false"):
        return value.capitalize()
    if value == "inf":
        return "math.inf"
    return value if re.fullmatch(r"\[.*\]|[-+\d.]+(e[-+]?\d+)?|…", value) else f'"{value}"'


def speaks_python(arguments: Mapping[str, str]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that rewrites the messages of a function's errors; see in_arguments."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return function(*args, **kwargs)
            except MessageRefused:
                raise
            except SottovoceError as error:
                rewritten = in_arguments(str(error), arguments)
                if rewritten == str(error):
                    raise
                raise type(error)(rewritten) from error

        return call

    return decorate
