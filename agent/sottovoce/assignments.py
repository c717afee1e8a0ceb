"""`--set KEY=VALUE`, wherever a command takes it: a dotted key and a TOML value."""

import tomllib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sottovoce.errors import UsageError

_NONE: Mapping[str, str] = MappingProxyType({})


def parse_assignments(texts: Sequence[str], example: str, aliases: Mapping[str, str] = _NONE) -> dict[str, Any]:
    """Return values by their dotted keys; text that is not TOML is a string.

    Args:
        texts: texts of the form KEY=VALUE.
        example: an example of the form, for error messages.
        aliases: short keys and the keys they stand for.

    Raises:
        UsageError: for text that is not an assignment, or a key given twice.
    """
    values: dict[str, Any] = {}
    for text in texts:
        written, equals, value = text.partition("=")
        key = aliases.get(written, written)
        if not equals or not value:
            raise UsageError(f"--set {text}: write --set KEY=VALUE, for example --set {example}")
        if key in values:
            raise UsageError(f"--set {text}: {key} was set before, to {values[key]!r}; leave one of the two out")
        values[key] = _value(value)
    return values


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
