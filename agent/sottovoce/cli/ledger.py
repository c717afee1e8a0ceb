"""`sottovoce ledger`: what a device has spent."""

import json
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Look at a privacy ledger.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Look at a privacy ledger."""


@app.command()
def show(
    state: Annotated[Path, typer.Option("--state", help="The device's state directory.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Show budget and spending; asking never changes them."""
    from sottovoce.agent.assemble import LEDGER
    from sottovoce.vault import Ledger

    ledger = Ledger.read(state / LEDGER)
    budget, spending = ledger.budget, ledger.spending()
    ledger.close()
    facts = {
        "schema": "sottovoce.ledger/1",
        "owner": ledger.owner,
        "unit": budget.unit,
        "neighbouring": budget.neighbouring,
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "spent_epsilon": spending.promised_epsilon,
        "charges": spending.charges,
        "releases": spending.releases,
    }
    if as_json:
        typer.echo(json.dumps(facts))
        return
    for key, value in facts.items():
        typer.echo(f"{key:14} {value}")
