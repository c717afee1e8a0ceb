"""Commands of the packages for workstations, which are not installed on devices."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, NoReturn

import typer

from sottovoce.errors import UsageError
from sottovoce.plugins.workstation import INSTALL, LAB, is_installed


def add(app: typer.Typer, name: str, panel: str | None = None, group: str = "", package: str = LAB) -> None:
    """Add a workstation's command or, if its package is not installed, a hidden command that says what to install.

    Args:
        app: application to which the command is added.
        name: command name.
        panel: heading in the help text.
        group: parent commands, if any.
        package: the package that contains the command.
    """
    if not is_installed(package):
        context_settings = {"ignore_unknown_options": True, "allow_extra_args": True}
        placeholder = _make_placeholder(f"{group} {name}".lstrip(), package)
        app.command(name, hidden=True, add_help_option=False, context_settings=context_settings)(placeholder)
        return
    words = f"{group} {name}".split()
    module = import_module(f"{package}.cli.{'_'.join(words)}")
    if hasattr(module, "app"):
        app.add_typer(module.app, name=name, rich_help_panel=panel)
    else:
        app.command(name, rich_help_panel=panel)(getattr(module, f"run_{name}"))


def load_module(module: str, command: str, package: str = LAB) -> Any:
    """Import and return a module of a workstation's package.

    Args:
        module: module name within the package.
        command: command that needs the module, for the error message.
        package: the package that contains the module.

    Raises:
        UsageError: if the package is not installed.
    """
    if not is_installed(package):
        raise _not_installed_error(command, package)
    return import_module(f"{package}.{module}")


def _make_placeholder(name: str, package: str) -> Callable[[], NoReturn]:
    def command() -> NoReturn:
        raise _not_installed_error(name, package)

    return command


def _not_installed_error(command: str, package: str) -> UsageError:
    distribution = package.replace("_", "-")
    return UsageError(
        f"{command}: this command is part of the package {distribution}, which is not installed here; to "
        f"install it, run {INSTALL}"
    )
