"""`sottovoce fleet`: make a fleet, let devices join it, look at them."""

import json
import math
from pathlib import Path
from typing import Annotated, Literal

import typer

from sottovoce.errors import UsageError

app = typer.Typer(help="Make a fleet, let devices join, show them.", no_args_is_help=True)

FleetDirectory = Annotated[Path, typer.Option("--fleet", help="The fleet's directory, with its key.")]
StateDirectory = Annotated[Path, typer.Option("--state", help="The device's state directory.")]


@app.command()
def init(
    name: Annotated[str, typer.Option("--name", help="Lowercase letters, digits and dashes.")],
    fleet: FleetDirectory = Path("fleet"),
) -> None:
    """Make a fleet: a certificate that devices trust, and a key that belongs offline."""
    from sottovoce.identity import create_fleet

    create_fleet(fleet, name)
    typer.echo(f"fleet {name}: made in {fleet}. Keep {fleet / 'ca.key'} offline; whoever has it can add devices.")


@app.command()
def join(
    state: StateDirectory,
    fleet: FleetDirectory = Path("fleet"),
    epsilon: Annotated[float, typer.Option(help="Total ε one privacy unit of this device may ever cost.")] = 2.0,
    delta: Annotated[float, typer.Option(help="Total δ.")] = 1e-5,
    neighbouring: Annotated[
        Literal["add-remove", "replace-one"], typer.Option(help="What two data sets may differ in.")
    ] = "add-remove",
    unit: Annotated[
        Literal["record", "window", "device"], typer.Option(help="What one privacy unit is, as privacy.unit says.")
    ] = "record",
    vault: Annotated[
        Path | None, typer.Option(help="Make the ledger here, in the directory of a separate vault, not in --state.")
    ] = None,
) -> None:
    """Make a device: its keys, its certificate, and the ledger that will hold its budget for life."""
    from sottovoce.agent.join import join as join_fleet
    from sottovoce.identity import open_fleet
    from sottovoce.vault import Budget

    if not (0 < epsilon < math.inf and 0 < delta < 1):
        raise UsageError("--epsilon must be a positive number and --delta lie between 0 and 1, for example 2 and 1e-5")
    budget = Budget(epsilon, delta, unit, neighbouring)
    identity = join_fleet(open_fleet(fleet), state, budget, vault=vault)
    typer.echo(identity.node_id)


@app.command()
def show(
    state: StateDirectory,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Show a device's identity."""
    from sottovoce.agent.assemble import IDENTITY
    from sottovoce.identity import load

    identity = load(state / IDENTITY)
    facts = {
        "id": identity.node_id,
        "fleet": identity.fleet,
        "name": identity.dns_name,
        "certificate_expires": identity.not_after.isoformat(),
    }
    if as_json:
        typer.echo(json.dumps(facts))
        return
    for key, value in facts.items():
        typer.echo(f"{key:20} {value}")
