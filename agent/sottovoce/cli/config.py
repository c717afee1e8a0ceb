"""`sottovoce config`: check a file, print the schema."""

import json
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Check a configuration file, or print its schema.", no_args_is_help=True)


@app.command()
def check(path: Annotated[Path, typer.Argument(metavar="FILE", help="The configuration file.")]) -> None:
    """Check a configuration file: name each wrong key, its line and the remedy."""
    from sottovoce.agent.runnable import family_here
    from sottovoce.config import load

    family_here(load(path))
    typer.echo(f"{path}: correct")


@app.command()
def schema() -> None:
    """Print the JSON schema of a configuration."""
    from sottovoce.config.json_schema import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))
