"""Parse the option `--set KEY=VALUE` of commands, with a dotted key and a TOML value."""

import tomllib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sottovoce.errors import UsageError

_NO_ALIASES: Mapping[str, str] = MappingProxyType({})


def parse_assignments(texts: Sequence[str], example: str, aliases: Mapping[str, str] = _NO_ALIASES) -> dict[str, Any]:
    """Parse assignments into a dictionary of values by dotted key; a value that is not TOML becomes a string.

    Args:
        texts: texts of the form KEY=VALUE.
        example: example assignment for error messages.
        aliases: short keys, and the full keys that they abbreviate.

    Raises:
        UsageError: if a text is not an assignment, or if a key is set twice.
    """
    values: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        key = aliases.get(name, name)
        if not equals or not value:
            raise UsageError(f"--set {text} is not an assignment; use --set KEY=VALUE, for example --set {example}")
        if key in values:
            raise UsageError(f"--set {text}: {key} is already set to {values[key]!r}; remove one of the assignments")
        values[key] = _parse_value(value)
    return values


def _parse_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
