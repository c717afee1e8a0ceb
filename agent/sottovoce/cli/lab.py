"""Commands of the package sottovoce-lab, which a workstation has and a device does not."""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import NoReturn

import typer

from sottovoce.errors import UsageError

PACKAGE = "sottovoce_lab"
INSTALL = "pip install 'sottovoce[all]'"
"""The line that adds the workstation's commands and everything that they use."""


def add(app: typer.Typer, name: str, panel: str | None = None) -> None:
    """Add a command of the lab; where the lab is not installed, a hidden one that says what to install.

    Args:
        app: what it is a command of.
        name: of the command.
        panel: heading of its group in the help.
    """
    if find_spec(PACKAGE) is not None:
        app.command(name, rich_help_panel=panel)(getattr(import_module(f"{PACKAGE}.cli.{name}"), f"run_{name}"))
        return
    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    app.command(name, hidden=True, add_help_option=False, context_settings=anything)(_missing(name))


def _missing(name: str) -> Callable[[], NoReturn]:
    def command() -> NoReturn:
        raise UsageError(
            f"{name}: this command is part of the package sottovoce-lab, for workstations, which is not installed "
            f"here: {INSTALL}"
        )

    return command
