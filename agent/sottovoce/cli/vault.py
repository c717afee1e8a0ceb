"""`sottovoce vault`: run the vault as a separate process."""

from pathlib import Path
from typing import Annotated

import typer

from sottovoce.cli import services

app = typer.Typer(help="Run the vault as a separate process without network access.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Run the vault as a separate process without network access."""


@app.command()
def run(config: Annotated[Path, typer.Option("--config", help="The agent's configuration file, with [vault].")]) -> int:
    """Run the vault in the foreground, as its own user, until SIGTERM or Ctrl-C."""
    return services.run_vault(config)
