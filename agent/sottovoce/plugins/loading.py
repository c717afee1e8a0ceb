"""Loading of a named plug-in."""

from typing import Any

from sottovoce.plugins.discovery import KINDS, Plugin
from sottovoce.plugins.guard import guarded


def load(plugin: Plugin, wanted: type) -> Any:
    """Import a plug-in.

    Args:
        plugin: the named plug-in.
        wanted: required type of its object.

    Raises:
        PluginError: if its package cannot be imported, was made for another version, or holds something else.
    """
    from importlib.metadata import EntryPoint

    _check_version(plugin)
    with guarded(plugin, "importing it"):
        found = EntryPoint(plugin.name, plugin.value, KINDS[plugin.kind]).load()
    if not isinstance(found, wanted):
        raise plugin.error(f"{plugin.value} is of type {type(found).__name__}, not {wanted.__name__}")
    return found


def _check_version(plugin: Plugin) -> None:
    from packaging.requirements import InvalidRequirement, Requirement

    import sottovoce

    for text in plugin.requires:
        try:
            wanted = Requirement(text)
        except InvalidRequirement:
            continue  # of another package's name, or malformed: an installer's concern
        if wanted.name == "sottovoce" and not wanted.specifier.contains(sottovoce.__version__, prereleases=True):
            raise plugin.error(
                f"it needs sottovoce {wanted.specifier}, and this is {sottovoce.__version__}",
                "install the version that fits",
            )
