"""`sottovoce config`: check a configuration file or print the schema."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Check a configuration file, or print its schema.", no_args_is_help=True)


@app.command()
def check(path: Annotated[Path, typer.Argument(metavar="FILE", help="The configuration file.")]) -> None:
    """Check a configuration file and, when run on the device, the device too; report each fault with its remedy."""
    from sottovoce.cli.privacy_explain import ledger_path, open_ledger
    from sottovoce.config import load
    from sottovoce.errors import IdentityError, SottovoceError
    from sottovoce.node.start_checks import check_state, find_notes, find_problems
    from sottovoce.privacy.vault import check_ledger_exists

    settings = load(path)
    errors = list(find_problems(settings))
    has_own_ledger = settings.vault.socket is None and os.access(settings.agent.state / ".", os.R_OK | os.X_OK)
    # The ledger is not checked on another machine, or if only the vault's own user may read it.
    if has_own_ledger or os.access(ledger_path(settings), os.R_OK):
        try:
            check_ledger_exists(ledger_path(settings))
            with open_ledger(settings):
                pass
        except SottovoceError as error:
            errors.append(error)
    if errors:
        raise type(errors[0])("\n".join(str(error) for error in errors))
    notes, summary = find_notes(settings)
    for problem, remedy in notes:
        typer.echo(f"sottovoce: warning: {problem}: {remedy}", err=True)
    if summary:
        typer.echo(f"{settings.data.source}: {summary}", err=True)
    try:
        check_state(settings.agent.state)
    except IdentityError as error:
        typer.echo(f"sottovoce: {error}. Records, addresses and ledger were not checked", err=True)
    typer.echo(f"{path}: correct")


@app.command()
def schema() -> None:
    """Print the JSON schema of the configuration file."""
    from sottovoce.config.json_schema import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))
