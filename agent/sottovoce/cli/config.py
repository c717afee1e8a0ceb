"""`sottovoce config`: check a file, print the schema."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Check a configuration file, or print its schema.", no_args_is_help=True)


@app.command()
def check(path: Annotated[Path, typer.Argument(metavar="FILE", help="The configuration file.")]) -> None:
    """Check a configuration file, against the device's ledger where there is one: name each fault and its remedy."""
    from sottovoce.agent.runnable import family_here
    from sottovoce.cli.privacy_explain import ledger_of, ledger_path
    from sottovoce.config import load

    settings = load(path)
    family_here(settings)
    if os.access(ledger_path(settings), os.R_OK):  # on another machine, or of a vault's own user, it is not looked at
        with ledger_of(settings):
            pass
    typer.echo(f"{path}: correct")


@app.command()
def schema() -> None:
    """Print the JSON schema of a configuration."""
    from sottovoce.config.json_schema import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))
