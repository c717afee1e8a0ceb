"""Commands of the sottovoce-lab package, which is installed on workstations but not on devices."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, NoReturn

import typer

from sottovoce.errors import UsageError
from sottovoce.plugins.lab import INSTALL, PACKAGE, is_installed


def add(app: typer.Typer, name: str, panel: str | None = None, group: str = "") -> None:
    """Add a lab command or, if the lab is not installed, a hidden command that names the package to install.

    Args:
        app: application to which the command is added.
        name: command name.
        panel: heading in the help text.
        group: parent command, if any.
    """
    if is_installed():
        module = import_module(f"{PACKAGE}.cli.{group}_{name}" if group else f"{PACKAGE}.cli.{name}")
        app.command(name, rich_help_panel=panel)(getattr(module, f"run_{name}"))
        return
    context_settings = {"ignore_unknown_options": True, "allow_extra_args": True}
    placeholder = _make_placeholder(f"{group} {name}".lstrip())
    app.command(name, hidden=True, add_help_option=False, context_settings=context_settings)(placeholder)


def load_module(module: str, command: str) -> Any:
    """Import and return a module of the lab.

    Args:
        module: module name within the package.
        command: command that needs the module, for the error message.

    Raises:
        UsageError: if the lab is not installed.
    """
    if not is_installed():
        raise _not_installed_error(command)
    return import_module(f"{PACKAGE}.{module}")


def _make_placeholder(name: str) -> Callable[[], NoReturn]:
    def command() -> NoReturn:
        raise _not_installed_error(name)

    return command


def _not_installed_error(command: str) -> UsageError:
    return UsageError(
        f"{command}: this command is part of the package sottovoce-lab for workstations, which is not installed here; "
        f"to install it, run {INSTALL}"
    )
