"""Loading of a plug-in that a user has chosen."""

from typing import Any

from sottovoce.plugins.attribution import note_loaded, plugin_errors
from sottovoce.plugins.discovery import KINDS, Plugin


def load(plugin: Plugin, expected: type) -> Any:
    """Import a plug-in and return its object.

    Args:
        plugin: plug-in to import.
        expected: required type of the plug-in's object.

    Raises:
        PluginError: if the package cannot be imported, requires another version of Sottovoce, or contains an object of
            another type.
    """
    from importlib.metadata import EntryPoint

    _check_version(plugin)
    note_loaded(plugin)
    with plugin_errors(plugin):
        loaded = EntryPoint(plugin.name, plugin.value, KINDS[plugin.kind]).load()
    if not isinstance(loaded, expected):
        raise plugin.error(f"{plugin.value} is of type {type(loaded).__name__}, not {expected.__name__}")
    return loaded


def _check_version(plugin: Plugin) -> None:
    from packaging.requirements import InvalidRequirement, Requirement

    import sottovoce

    for text in plugin.requires:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue  # malformed requirements are left to the installer
        versions = requirement.specifier
        if requirement.name == "sottovoce" and not versions.contains(sottovoce.__version__, prereleases=True):
            raise plugin.error(
                f"the package requires sottovoce {versions}, but this is {sottovoce.__version__}",
                "install matching versions of both",
            )
