"""`sottovoce fleet init`: create a fleet."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from sottovoce.cli.fleet_options import Delta, Epsilon, FleetDirectory, Neighbouring, Unit, check_budget
from sottovoce.errors import UsageError


def run_init(
    name: Annotated[str, typer.Option("--name", help="Lowercase letters, digits and dashes.")],
    fleet: FleetDirectory = Path("fleet"),
    purpose: Annotated[
        Literal["meters", "records"] | None,
        typer.Option(
            "--for", help="Set what every device protects: the whole home for `meters`, one record for `records`."
        ),
    ] = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    neighbouring: Neighbouring = None,
    unit: Unit = None,
) -> None:
    """Create a fleet: a CA certificate that devices trust, and its key, which you keep offline."""
    from sottovoce_operator.fleet import create_fleet
    from sottovoce_operator.fleet.ca import SPARE

    check_budget(epsilon, delta)
    budget = {"epsilon": epsilon, "delta": delta, "neighbouring": neighbouring, "unit": unit}
    budget = {name: value for name, value in budget.items() if value is not None}
    if budget and purpose is None:
        raise UsageError(
            f"--{next(iter(budget))} is part of the fleet-wide guarantee and requires --for, for example --for meters"
        )
    create_fleet(fleet, name)
    if purpose is not None:
        import msgspec
        from sottovoce.node.state_directory import resolve_budget

        from sottovoce_operator.fleet.promise import PURPOSES, save_promise

        promised = msgspec.structs.replace(PURPOSES[purpose], **budget)
        save_promise(fleet, promised)
        typer.echo(
            f"every device in this fleet promises {resolve_budget(promised).description}; every invitation contains "
            "this promise, and every ledger enforces it"
        )
    typer.echo(f"fleet {name}: created in {fleet}. Keep {fleet / 'ca.key'} offline; anyone who has it can add devices.")
    typer.echo(f"Move {fleet / SPARE}, the spare key, to another medium: it replaces ca.key if that is lost or stolen.")
