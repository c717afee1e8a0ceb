"""The Sottovoce command line: command groups and argument parsing."""

import sys
from importlib import import_module
from typing import Annotated, cast

import typer
from typer.core import TyperCommand, TyperGroup

import sottovoce
from sottovoce.cli import workstation
from sottovoce.cli.examples import EXAMPLES
from sottovoce.errors import ExitCode, UsageError
from sottovoce.plugins.workstation import OPERATOR

_PANELS = {
    "Try it on this machine": ("testbed", "report"),
    "Run a device": ("agent", "config", "doctor", "top", "vault", "feed"),
    "Run a fleet": ("fleet", "plan", "results"),
    "Privacy": ("privacy", "ledger"),
    "Research": ("advise", "run", "simulate", "reproduce", "model", "plugins", "init", "docs"),
}
"""All commands by heading, in the order of `sottovoce --help`."""
_LAB_COMMANDS = ("testbed", "report", "run", "simulate", "reproduce", "init", "advise")
_OPERATOR_COMMANDS = ("plan", "results", "top")
_SINGLE_COMMANDS = ("docs", "doctor", "plugins")
"""Device commands that have no subcommands."""
_EXTERNAL_MODULES = {"feed": "sottovoce_home.cli"}
"""Modules of the commands that other packages of this distribution provide."""


def command_line(requested: str | None = None) -> TyperGroup:
    """Return the command group; to save memory on a device, only the requested command is loaded.

    Args:
        requested: first word of the command line; if it is not the name of a command, all commands are loaded.
    """
    app = typer.Typer(
        name="sottovoce",
        help="Train one model across many devices, peer to peer and under differential privacy.",
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    loads_all = all(requested not in names for names in _PANELS.values())
    for panel, names in _PANELS.items():
        for name in names:
            if loads_all or requested == name:
                _add_command(app, name, panel)
    command = cast(TyperGroup, typer.main.get_command(app))
    ordered = (name for names in _PANELS.values() for name in names if name in command.commands)
    command.commands = {name: command.commands[name] for name in ordered}
    _show_examples(command, "")
    return command


def _add_command(app: typer.Typer, name: str, panel: str) -> None:
    if name in _LAB_COMMANDS:
        workstation.add(app, name, panel)
    elif name in _OPERATOR_COMMANDS:
        workstation.add(app, name, panel, package=OPERATOR)
    elif name in _SINGLE_COMMANDS:
        run = getattr(import_module(f"sottovoce.cli.{name}"), f"run_{name}")
        app.command(name, rich_help_panel=panel)(run)
    else:
        module = import_module(_EXTERNAL_MODULES.get(name, f"sottovoce.cli.{name}"))
        app.add_typer(module.app, name=name, rich_help_panel=panel)


def _show_examples(command: TyperGroup, prefix: str) -> None:
    for name, subcommand in command.commands.items():
        if isinstance(subcommand, TyperGroup):
            _show_examples(subcommand, f"{prefix}{name} ")
        elif isinstance(subcommand, TyperCommand) and not subcommand.hidden:
            subcommand.epilog = f"Example: [bold]{EXAMPLES[prefix + name]}[/]"


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"sottovoce {sottovoce.__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    del version


def run() -> object:
    """Parse the command line and run the command.

    Returns:
        The command's exit code, if it is not 0.

    Raises:
        UsageError: if the command does not exist or an option is wrong.
        SottovoceError: if the command raises it.
    """
    try:
        return command_line(*sys.argv[1:2])(standalone_mode=False, prog_name="sottovoce")
    except typer.Abort:
        return ExitCode.INTERRUPTED
    except Exception as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # Click has already printed the help
            return ExitCode.DONE
        if hasattr(error, "format_message"):  # a Click error from parsing the command line
            context = getattr(error, "ctx", None)
            path = "sottovoce" if context is None else context.command_path
            message = error.format_message()
            punctuation = "" if message.endswith((".", "?")) else "."
            raise UsageError(f"{message}{punctuation} See `{path} --help`.") from error
        raise
