"""`sottovoce vault`: the vault as a process of its own."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Run the vault as a process of its own, without a network.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Run the vault as a process of its own, without a network."""


@app.command()
def run(config: Annotated[Path, typer.Option("--config", help="The agent's configuration file, with [vault].")]) -> int:
    """Serve records and ledger to the agent, as the vault's own user, until SIGTERM or Ctrl-C."""
    from sottovoce.agent.faults import shown
    from sottovoce.agent.vault_process import keep
    from sottovoce.config import load
    from sottovoce.observe import log_to_stderr

    with shown():
        settings = load(config)
        log_to_stderr(settings.agent.log_level, settings.agent.log_format)
        return keep(settings, config)
