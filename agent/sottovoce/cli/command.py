"""The command: every error ends with its documented exit code and one message on standard error."""

import errno
import sys
import traceback
from importlib import import_module
from typing import Annotated

import typer

import sottovoce
from sottovoce.errors import ExitCode, SottovoceError

_COMMANDS = ("run", "testbed", "simulate", "reproduce", "doctor", "top", "report")
_GROUPS = ("agent", "fleet", "ledger", "model", "privacy", "config", "vault", "feed")
_FULL = (errno.ENOSPC, errno.EDQUOT)


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
    everything = first not in _COMMANDS + _GROUPS
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


def run() -> int:
    """Run the command; returns its exit code, and has said why if that is not 0."""
    try:
        code = command_line(*sys.argv[1:2])(standalone_mode=False, prog_name="sottovoce")
        return _interrupted() if code == ExitCode.INTERRUPTED else code if isinstance(code, int) else ExitCode.DONE
    except SottovoceError as error:
        typer.echo(f"sottovoce: {error}", err=True)
        return error.exit_code
    except typer.Abort:
        return _interrupted()
    except Exception as error:  # noqa: BLE001 - the outermost supervisor: anything else is a defect
        if hasattr(error, "format_message"):  # a usage error found while parsing the command line
            typer.echo(f"sottovoce: {error.format_message()} Try --help.", err=True)
            return ExitCode.USAGE
        if isinstance(error, OSError) and error.errno in _FULL:
            typer.echo(f"sottovoce: {error.strerror}: make room where this command prints or writes", err=True)
            return ExitCode.DATA
        traceback.print_exc()
        typer.echo("sottovoce: internal error: this is a defect; please report the lines above", err=True)
        return ExitCode.INTERNAL


def _interrupted() -> ExitCode:
    """Typer catches KeyboardInterrupt itself, and makes this code of it."""
    typer.echo("sottovoce: interrupted", err=True)
    return ExitCode.INTERRUPTED
