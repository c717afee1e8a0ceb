"""The parts of the command line, and its words."""

import sys
from importlib import import_module
from typing import Annotated

import typer

import sottovoce
from sottovoce.cli import lab
from sottovoce.errors import ExitCode, UsageError

_COMMANDS = ("doctor", "top", "report")
_OF_THE_LAB = ("run", "testbed", "simulate", "reproduce")
_GROUPS = ("agent", "fleet", "ledger", "model", "privacy", "config", "vault", "feed")


def command_line(first: str | None = None) -> typer.Typer:
    """The command; a device holds in memory no other part of it than the one that runs there.

    Args:
        first: the first word of what is asked; anything but the name of a part brings all of them.
    """
    app = typer.Typer(
        name="sottovoce",
        help="Devices learn together by gossip and say only what differential privacy lets them say.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)
    everything = first not in _OF_THE_LAB + _COMMANDS + _GROUPS
    for name in _OF_THE_LAB:
        if everything or first == name:
            lab.add(app, name)
    for name in _COMMANDS:
        if everything or first == name:
            app.command(name)(getattr(import_module(f"sottovoce.cli.{name}"), f"run_{name}"))
    for name in _GROUPS:
        if everything or first == name:
            app.add_typer(import_module(f"sottovoce.cli.{name}").app, name=name)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sottovoce {sottovoce.__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    del version


def run() -> object:
    """Parse the words of the command line, and do what they say.

    Returns:
        What the command returns: its exit code, if that is not 0.

    Raises:
        UsageError: they say nothing that there is.
        SottovoceError: of the command.
    """
    try:
        return command_line(*sys.argv[1:2])(standalone_mode=False, prog_name="sottovoce")
    except typer.Abort:
        return ExitCode.INTERRUPTED
    except Exception as error:
        if hasattr(error, "format_message"):  # found while parsing the command line
            raise UsageError(f"{error.format_message()} Try --help.") from error
        raise
