"""Task documents, which contain the settings on which devices must agree before they may mix their models.

A task document maps configuration names to public settings. Its canonical form is unique and has one digest. It omits
the settings that each device chooses for itself: its ε and steps below the fleet's ceilings, its period and its limits.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import TypeAlias

from msgspec import DecodeError, json

LARGEST = 2**14
"""Maximum document size in bytes."""

MAX_SIGNED_TASK_BYTES = 2**16
"""Maximum size in bytes of a signed fleet task, whose configuration tables are used to create documents."""

_MAX_SHOWN_CHARS = 60  # characters of a value shown in a message
_CONTEXT_CHARS = 10  # number of characters shown before the first difference
_MAX_DIFFERENCES = 10

_Number: TypeAlias = bool | int | float
Value: TypeAlias = _Number | str | list[_Number | str | list[float]] | None


@dataclass(frozen=True)
class Task:
    """A task document.

    Attributes:
        settings: JSON values by setting name.
    """

    settings: Mapping[str, Value]

    @cached_property
    def canonical(self) -> bytes:
        """Return the canonical form, which is JSON with sorted keys and no whitespace."""
        return json.encode(self.settings, order="sorted")

    @cached_property
    def digest(self) -> bytes:
        """Return the SHA-256 digest of the canonical form, 32 bytes."""
        return sha256(self.canonical).digest()

    def differences(self, other: "Task") -> tuple[str, ...]:
        """Return one sentence per setting in which another task differs, ordered by name; after ten, only a count."""
        sentences = tuple(self._describe_differences(other))
        omitted = len(sentences) - _MAX_DIFFERENCES
        if omitted <= 0:
            return sentences
        return (*sentences[:_MAX_DIFFERENCES], f"and {omitted} more")

    def _describe_differences(self, other: "Task") -> Iterator[str]:
        for name in sorted(self.settings.keys() | other.settings.keys()):
            own_value, other_value = self._encode_setting(name), other._encode_setting(name)
            if own_value != other_value:
                start = 0
                if max(len(own_value), len(other_value)) > _MAX_SHOWN_CHARS:
                    start = max(0, _common_prefix_length(own_value, other_value) - _CONTEXT_CHARS)
                other_part, own_part = _shorten(other_value, start), _shorten(own_value, start)
                yield f"{_shorten(name)} {other_part} where this device has {own_part}"

    def _encode_setting(self, name: str) -> str:
        return json.encode(self.settings[name]).decode() if name in self.settings else "nothing"


def read(raw: bytes) -> Task:
    """Read a document received from a peer.

    Raises:
        ValueError: if the bytes are not a task document, are too large, or are not in canonical form.
    """
    if len(raw) > LARGEST:
        raise ValueError("the task document is too large")
    try:
        task = Task(json.decode(raw, type=dict[str, Value]))
    except DecodeError as error:
        raise ValueError("the document is not a task document") from error
    if task.canonical != raw:
        raise ValueError("the task document is not in canonical form")
    return task


def _common_prefix_length(first: str, second: str) -> int:
    """Return the length of two texts' common prefix."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(first), len(second)))


def _shorten(text: str, start: int = 0) -> str:
    """Shorten a text to one line of printable characters for use in messages."""
    part = "".join(
        character if character.isprintable() else "?" for character in text[start : start + _MAX_SHOWN_CHARS]
    )
    return ("…" if start else "") + part + ("…" if len(text) > start + _MAX_SHOWN_CHARS else "")
