"""Installed plug-ins, found by their entry points. No package is imported before one of its plug-ins is named.

A package provides a plug-in by an entry point with the plug-in's name, in the group of its kind.
"""

import sys
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from sottovoce.errors import PluginError

LEARNER, TRANSPORT, MECHANISM = "learner", "transport", "mechanism"
DATA_KIND, METER_SOURCE = "data kind", "meter source"
KINDS: Mapping[str, str] = {
    LEARNER: "sottovoce.algorithms",
    TRANSPORT: "sottovoce.transports",
    MECHANISM: "sottovoce.mechanisms",
    DATA_KIND: "sottovoce.datasets",
    METER_SOURCE: "sottovoce.sources",
}
"""The group of entry points of each kind of plug-in."""

_MARK = b"[sottovoce."


@dataclass(frozen=True, slots=True)
class Plugin:
    """An entry point of a plug-in.

    Attributes:
        kind: one of KINDS.
        name: name of the plug-in, by which it is chosen.
        value: `module:attribute`.
        package: the distribution that provides it, with its version.
        requires: requirements of the distribution.
    """

    kind: str
    name: str
    value: str
    package: str
    requires: tuple[str, ...] = field(default=(), compare=False)

    @property
    def root(self) -> str:
        """Top package of its code."""
        return self.value.partition(":")[0].partition(".")[0]

    def error(self, problem: str, remedy: str = "repair or remove the package") -> PluginError:
        """Return the error for a problem of this plug-in, with the remedy."""
        return PluginError(f"{self.kind} {self.name} of package {self.package}: {problem}; {remedy}")


def installed_plugins(kind: str) -> Mapping[str, tuple[Plugin, ...]]:
    """Return plug-ins of a kind, by name. Several with one name are an error once that name is used."""
    return _installed(KINDS[kind]) if _any(tuple(sys.path)) else {}


def find(kind: str, name: str, own: Container[str]) -> Plugin | None:
    """Return the plug-in with a name; None if there is none.

    Args:
        kind: one of KINDS.
        name: name as configured.
        own: names of this kind that Sottovoce itself uses.

    Raises:
        PluginError: if several packages provide this name, or a package provides one of Sottovoce's own names.
    """
    found = installed_plugins(kind).get(name, ())
    packages = ", ".join(sorted({plugin.package for plugin in found}))
    if found and name in own:
        raise found[0].error("Sottovoce itself uses this name", "rename the entry point, or remove the package")
    if len(found) > 1:
        raise PluginError(f"{kind} {name}: several packages bring one of this name ({packages}): remove all but one")
    return found[0] if found else None


@lru_cache(maxsize=4)
def _any(path: tuple[str, ...]) -> bool:
    """Return whether any installed package mentions our groups; cheaper by 2 MiB than reading packages and versions."""
    files = (file for folder in path for file in Path(folder or ".").glob("*-info/entry_points.txt"))
    return any(_MARK in _bytes(file) for file in files)


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


@lru_cache
def _installed(group: str) -> dict[str, tuple[Plugin, ...]]:
    (kind,) = (name for name, known in KINDS.items() if known == group)
    found: dict[str, tuple[Plugin, ...]] = {}
    for point, package, requires in _entry_points(group):
        plugin = Plugin(kind, point.name, point.value, package, requires)
        others = found.get(point.name, ())
        found[point.name] = others if plugin in others else (*others, plugin)
    return found


def _entry_points(group: str) -> Iterator[tuple[Any, str, tuple[str, ...]]]:
    """Yield entry points of a group, each with its package and requirements; unreadable packages have none."""
    from importlib.metadata import distributions

    seen = set()
    for made in distributions():
        try:
            name, version, points = made.metadata["Name"], made.version, list(made.entry_points)
            requires = tuple(made.requires or ())
        except Exception:  # noqa: BLE001, S112 - torn metadata of any package must not end commands that do not need it
            continue
        if name in seen:
            continue  # shadowed by a package earlier on the path
        seen.add(name)
        for point in points:
            if point.group == group:
                yield point, f"{name} {version}", requires
