"""The commands of sottovoce-lab: a package of its own, which a workstation has and a device has not."""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import NoReturn

import typer

from sottovoce.errors import UsageError

PACKAGE = "sottovoce_lab"


def add(app: typer.Typer, name: str) -> None:
    """Add a command of the lab; where it is not installed, one that nobody is shown and that says what to install.

    Args:
        app: what it is a command of.
        name: of the command.
    """
    if find_spec(PACKAGE) is not None:
        app.command(name)(getattr(import_module(f"{PACKAGE}.cli.{name}"), f"run_{name}"))
        return
    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    app.command(name, hidden=True, add_help_option=False, context_settings=anything)(_missing(name))


def _missing(name: str) -> Callable[[], NoReturn]:
    def command() -> NoReturn:
        raise UsageError(
            f"{name}: is a command of the package sottovoce-lab, which is not installed here: on a workstation, "
            "pip install sottovoce-lab and give the same command there; a device runs without"
        )

    return command
