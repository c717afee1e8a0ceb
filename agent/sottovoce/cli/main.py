"""The command's entry: every error ends with its documented exit code and one message on standard error."""

import sys
import traceback
from typing import Annotated

import typer

import sottovoce
from sottovoce.cli import (
    agent,
    config,
    feed,
    fleet,
    fleet_broker,
    fleet_invite,
    fleet_join,
    fleet_renew,
    fleet_revoke,
    ledger,
    model,
    privacy,
    privacy_audit,
    privacy_explain,
    reproduce,
    simulate,
    testbed,
    vault,
)
from sottovoce.errors import ExitCode, SottovoceError

app = typer.Typer(
    name="sottovoce",
    help="Devices learn together by gossip and say only what differential privacy lets them say.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("testbed")(testbed.run_testbed)
app.command("simulate")(simulate.run_simulate)
app.command("reproduce")(reproduce.run_reproduce)
app.add_typer(agent.app, name="agent")
fleet.app.command("broker")(fleet_broker.broker)
fleet.app.command("invite")(fleet_invite.invite)
fleet.app.command("join")(fleet_join.join)
fleet.app.command("renew")(fleet_renew.renew)
fleet.app.command("revoke")(fleet_revoke.revoke)
app.add_typer(fleet.app, name="fleet")
app.add_typer(ledger.app, name="ledger")
app.add_typer(model.app, name="model")
privacy.app.command("audit")(privacy_audit.run_audit)
privacy.app.command("explain")(privacy_explain.explain)
app.add_typer(privacy.app, name="privacy")
app.add_typer(config.app, name="config")
app.add_typer(vault.app, name="vault")
app.add_typer(feed.app, name="feed")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sottovoce {sottovoce.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    del version


def main() -> None:
    """Run the command and exit."""
    try:
        code = app(standalone_mode=False, prog_name="sottovoce")
        if code == ExitCode.INTERRUPTED:  # Typer catches KeyboardInterrupt itself
            code = _interrupted()
        sys.exit(code if isinstance(code, int) else ExitCode.DONE)
    except SottovoceError as error:
        typer.echo(f"sottovoce: {error}", err=True)
        sys.exit(error.exit_code)
    except typer.Abort:
        sys.exit(_interrupted())
    except KeyboardInterrupt:
        sys.exit(_interrupted())
    except Exception as error:  # noqa: BLE001 - the outermost supervisor: anything else is a defect
        if hasattr(error, "format_message"):  # a usage error found while parsing the command line
            typer.echo(f"sottovoce: {error.format_message()} Try --help.", err=True)
            sys.exit(ExitCode.USAGE)
        traceback.print_exc()
        typer.echo("sottovoce: internal error: this is a defect; please report the lines above", err=True)
        sys.exit(ExitCode.INTERNAL)


def _interrupted() -> ExitCode:
    typer.echo("sottovoce: interrupted", err=True)
    return ExitCode.INTERRUPTED
