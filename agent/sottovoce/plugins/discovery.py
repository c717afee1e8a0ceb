"""Discovery of installed plug-ins through their entry points, without importing the packages.

A package provides a plug-in through an entry point that has the plug-in's name and is in the group for its kind.
"""

import sys
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from sottovoce.errors import PluginError
from sottovoce.plugins.workstation import PAPERS

LEARNER, TRANSPORT, MECHANISM = "learner", "transport", "mechanism"
DATA_KIND, METER_SOURCE = "data kind", "meter source"
KINDS: Mapping[str, str] = {
    LEARNER: "sottovoce.algorithms",
    TRANSPORT: "sottovoce.transports",
    MECHANISM: "sottovoce.mechanisms",
    DATA_KIND: "sottovoce.datasets",
    METER_SOURCE: "sottovoce.sources",
}
"""Entry-point group for each kind of plug-in."""

_GROUP_PREFIX = b"[sottovoce."


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plug-in's entry point.

    Attributes:
        kind: one of KINDS.
        name: name by which users choose the plug-in.
        value: location of the object, as `module:attribute`.
        package: name and version of the distribution that provides the plug-in.
        requires: the distribution's dependency specifiers.
    """

    kind: str
    name: str
    value: str
    package: str
    requires: tuple[str, ...] = field(default=(), compare=False)

    @property
    def root(self) -> str:
        """Top-level package of the plug-in's code."""
        return self.value.partition(":")[0].partition(".")[0]

    def error(self, problem: str, remedy: str = "repair or remove the package") -> PluginError:
        """Return an error that reports a problem with this plug-in, together with the remedy."""
        return PluginError(f"{self.kind} {self.name} of package {self.package}: {problem}; {remedy}")


def installed_plugins(kind: str) -> Mapping[str, tuple[Plugin, ...]]:
    """Return the plug-ins of a kind, keyed by name. Duplicates of a name cause an error only when that name is used."""
    return _installed(KINDS[kind]) if _any_plugin_installed(tuple(sys.path)) else {}


def find(kind: str, name: str, reserved: Container[str]) -> Plugin | None:
    """Return the plug-in with a given name; None if there is none.

    Args:
        kind: one of KINDS.
        name: name from the configuration.
        reserved: names of this kind that Sottovoce itself uses.

    Raises:
        PluginError: if several packages provide this name, or a package provides one of Sottovoce's own names.
    """
    plugins = installed_plugins(kind).get(name, ())
    packages = ", ".join(sorted({plugin.package for plugin in plugins}))
    if plugins and name in reserved:
        raise plugins[0].error("Sottovoce itself uses this name", "rename the entry point, or remove the package")
    if len(plugins) > 1:
        raise PluginError(f"{kind} {name}: several packages provide this name ({packages}): remove all but one")
    return plugins[0] if plugins else None


@lru_cache(maxsize=4)
def _any_plugin_installed(path: tuple[str, ...]) -> bool:
    """Return whether any installed package declares one of our groups.

    This uses 2 MiB less memory than reading all packages and versions. Our own package of papers does not count; the
    registry of learners finds what it provides.
    """
    files = (file for folder in path for file in Path(folder or ".").glob("*-info/entry_points.txt"))
    return any(_GROUP_PREFIX in _read_bytes(file) for file in files if not file.parent.name.startswith(f"{PAPERS}-"))


def _read_bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


@lru_cache
def _installed(group: str) -> dict[str, tuple[Plugin, ...]]:
    (kind,) = (name for name, entry_point_group in KINDS.items() if entry_point_group == group)
    plugins: dict[str, tuple[Plugin, ...]] = {}
    for point, package, requires in _entry_points(group):
        plugin = Plugin(kind, point.name, point.value, package, requires)
        existing = plugins.get(point.name, ())
        plugins[point.name] = existing if plugin in existing else (*existing, plugin)
    return plugins


def _entry_points(group: str) -> Iterator[tuple[Any, str, tuple[str, ...]]]:
    """Yield the entry points of a group, each with its package and requirements; unreadable packages are skipped."""
    from importlib.metadata import distributions

    names = set()
    for distribution in distributions():
        try:
            name, version, points = distribution.metadata["Name"], distribution.version, list(distribution.entry_points)
            requires = tuple(distribution.requires or ())
        except Exception:  # noqa: BLE001, S112 - corrupt metadata must not end commands that do not need the package
            continue
        if name in names or name == PAPERS.replace("_", "-"):
            continue  # the former is shadowed by a package that is earlier on the path
        names.add(name)
        for point in points:
            if point.group == group:
                yield point, f"{name} {version}", requires
