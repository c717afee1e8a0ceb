"""Task document: the settings on which devices must agree before their models may be mixed.

It is a flat list of public settings by their names in the configuration, in one canonical form with one digest. It does
not contain what a device may choose for itself (its ε and steps below the fleet's ceilings, its period, its limits).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import TypeAlias

from msgspec import DecodeError, json

LARGEST = 2**14
"""Largest size of a document, in bytes."""

LARGEST_SIGNED = 2**16
"""Largest size in bytes of a task that a fleet signs: the configuration tables from which documents are made."""

_SHOWN = 60  # characters of a value shown in a message
_BEFORE = 10  # number of characters shown before the first difference
_MAX_DIFFERENCES = 10

_Number: TypeAlias = bool | int | float
Value: TypeAlias = _Number | str | list[_Number | str | list[float]] | None


@dataclass(frozen=True)
class Task:
    """Task document.

    Attributes:
        settings: settings by name, with JSON values.
    """

    settings: Mapping[str, Value]

    @cached_property
    def canonical(self) -> bytes:
        """The canonical form: JSON with sorted keys and no whitespace."""
        return json.encode(self.settings, order="sorted")

    @cached_property
    def digest(self) -> bytes:
        """Return the SHA-256 of the canonical form, 32 bytes."""
        return sha256(self.canonical).digest()

    def differences(self, other: "Task") -> tuple[str, ...]:
        """Return the first ten settings in which another task differs, in order of their names, one sentence each."""
        found = tuple(self._differing(other))
        more = len(found) - _MAX_DIFFERENCES
        return found if more <= 0 else (*found[:_MAX_DIFFERENCES], f"and {more} more")

    def _differing(self, other: "Task") -> Iterator[str]:
        for name in sorted(self.settings.keys() | other.settings.keys()):
            mine, its = self._said(name), other._said(name)
            if mine != its:
                first = max(0, _common_prefix_length(mine, its) - _BEFORE) if max(len(mine), len(its)) > _SHOWN else 0
                yield f"{_shown(name)} {_shown(its, first)} where this device has {_shown(mine, first)}"

    def _said(self, name: str) -> str:
        return json.encode(self.settings[name]).decode() if name in self.settings else "nothing"


def read(raw: bytes) -> Task:
    """Read a document received from a peer.

    Raises:
        ValueError: if it is not a task document, is too large, or is not in canonical form.
    """
    if len(raw) > LARGEST:
        raise ValueError("a task document is too large")
    try:
        task = Task(json.decode(raw, type=dict[str, Value]))
    except DecodeError as error:
        raise ValueError("this is not a task document") from error
    if task.canonical != raw:
        raise ValueError("a task document is not in its canonical form")
    return task


def _common_prefix_length(one: str, other: str) -> int:
    """Return the length of the common prefix of two texts."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _shown(text: str, first: int = 0) -> str:
    """Shorten a text to one line of printable characters, for messages."""
    part = "".join(sign if sign.isprintable() else "?" for sign in text[first : first + _SHOWN])
    return ("…" if first else "") + part + ("…" if len(text) > first + _SHOWN else "")
