"""Commands of the package sottovoce-lab, which is installed on workstations and not on devices."""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NoReturn

import typer

from sottovoce.errors import UsageError

PACKAGE = "sottovoce_lab"
INSTALL = "pip install 'sottovoce[all]'"
"""The line that adds the workstation's commands and everything that they use."""


def add(app: typer.Typer, name: str, panel: str | None = None, group: str = "") -> None:
    """Add a command of the lab, or, without the lab, a hidden one that names the package to install.

    Args:
        app: the application to which the command is added.
        name: name of the command.
        panel: heading in the help.
        group: its parent command, if any.
    """
    if find_spec(PACKAGE) is not None:
        module = import_module(f"{PACKAGE}.cli.{group}_{name}" if group else f"{PACKAGE}.cli.{name}")
        app.command(name, rich_help_panel=panel)(getattr(module, f"run_{name}"))
        return
    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    app.command(name, hidden=True, add_help_option=False, context_settings=anything)(
        _missing(f"{group} {name}".lstrip())
    )


def load_module(module: str, command: str) -> Any:
    """Return a module of the lab.

    Args:
        module: name of the module below the package.
        command: the command that needs it, for the error.

    Raises:
        UsageError: if the lab is not installed.
    """
    if find_spec(PACKAGE) is None:
        raise _not_installed_error(command)
    return import_module(f"{PACKAGE}.{module}")


def _missing(name: str) -> Callable[[], NoReturn]:
    def command() -> NoReturn:
        raise _not_installed_error(name)

    return command


def _not_installed_error(command: str) -> UsageError:
    return UsageError(
        f"{command}: this command is part of the package sottovoce-lab, for workstations, which is not installed "
        f"here: {INSTALL}"
    )
