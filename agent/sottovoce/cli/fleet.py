"""`sottovoce fleet`: create a fleet, add devices to it, inspect them, and set up the fleet's broker."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from sottovoce.cli.fleet_invite import invite
from sottovoce.cli.fleet_join import join
from sottovoce.cli.fleet_options import Delta, Epsilon, FleetDirectory, Neighbouring, Unit, check_budget
from sottovoce.cli.fleet_renew import renew, rotate
from sottovoce.cli.fleet_sign import app as task
from sottovoce.cli.fleet_sign import revoke
from sottovoce.cli.fleet_status import status
from sottovoce.errors import UsageError


def broker(
    host: Annotated[
        list[str], typer.Option(help="Name or address at which devices reach the broker; may be repeated.")
    ],
    fleet: Annotated[Path, typer.Option("--fleet", help="The fleet's directory, with its key.")] = Path("fleet"),
    out: Annotated[Path, typer.Option(help="Directory for the files.")] = Path("broker"),
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Port on which the broker listens.")] = 8883,
    user: Annotated[
        str | None, typer.Option(help="User that Mosquitto drops to when started as root (default: mosquitto).")
    ] = None,
    home: Annotated[
        Path | None, typer.Option("--at", help="Path of the directory on the broker's host, if it differs from --out.")
    ] = None,
) -> None:
    """Write the configuration of a hardened Mosquitto broker: certificate, listener, access rules."""
    from sottovoce.fleet import open_fleet
    from sottovoce.net.transports.mosquitto import write_broker

    configuration = write_broker(open_fleet(fleet), out, host, port=port, user=user, home=home)
    typer.echo(
        f"broker: created in {out}. Start it with: mosquitto -c {(home or configuration.parent) / configuration.name}"
    )
    typer.echo(f'Agents: [transport] use = ["mqtt"] and [transport.mqtt] url = "mqtts://{host[0]}:{port}"')


app = typer.Typer(help="Create a fleet; add, renew, revoke and list its devices.", no_args_is_help=True)

app.command("broker")(broker)
app.command("invite")(invite)
app.command("join")(join)
app.command("renew")(renew)
app.command("revoke")(revoke)
app.command("rotate")(rotate)
app.command("status")(status)
app.add_typer(task, name="task")


@app.command()
def init(
    name: Annotated[str, typer.Option("--name", help="Lowercase letters, digits and dashes.")],
    fleet: FleetDirectory = Path("fleet"),
    purpose: Annotated[
        Literal["meters", "records"] | None,
        typer.Option("--for", help="Set what every device protects: one day for `meters`, one record for `records`."),
    ] = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    neighbouring: Neighbouring = None,
    unit: Unit = None,
) -> None:
    """Create a fleet: a CA certificate that devices trust, and its key, which you keep offline."""
    from sottovoce.fleet import create_fleet
    from sottovoce.fleet.ca import SPARE

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

        from sottovoce.node.fleet_promise import PURPOSES, resolve_budget, save_promise

        promised = msgspec.structs.replace(PURPOSES[purpose], **budget)
        save_promise(fleet, promised)
        typer.echo(
            f"every device in this fleet promises {resolve_budget(promised).description}; every invitation contains "
            "this promise, and every ledger enforces it"
        )
    typer.echo(f"fleet {name}: created in {fleet}. Keep {fleet / 'ca.key'} offline; anyone who has it can add devices.")
    typer.echo(f"Move {fleet / SPARE}, the spare key, to another medium: it replaces ca.key if that is lost or stolen.")


@app.command()
def show(
    state: Annotated[Path | None, typer.Option("--state", help="The device's state directory.")] = None,
    fleet: Annotated[Path | None, typer.Option("--fleet", help="The fleet's directory, instead of --state.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show a device's identity, or a fleet's certificate, revocations and open invitations."""
    if (state is None) == (fleet is None):
        raise UsageError("specify what to show with either --state DIR or --fleet DIR")
    facts = _device_facts(state) if state is not None else _fleet_facts(fleet or Path())
    if as_json:
        typer.echo(json.dumps(facts))
        return
    for key, value in facts.items():
        items = (value or ["none"]) if isinstance(value, list) else [value]
        for item in items:
            typer.echo(f"{key:20} {' '.join(item.values()) if isinstance(item, dict) else item}")


def _device_facts(state: Path) -> dict[str, Any]:
    from sottovoce.fleet import load
    from sottovoce.node.assemble import IDENTITY

    identity = load(state / IDENTITY)
    return {
        "id": identity.node_id,
        "fleet": identity.fleet,
        "name": identity.dns_name,
        "certificate_expires": identity.not_after.isoformat(),
    }


def _fleet_facts(directory: Path) -> dict[str, Any]:
    from sottovoce.fleet import open_fleet
    from sottovoce.node.enroller import list_open_invitations
    from sottovoce.node.fleet_promise import read_promise, resolve_budget
    from sottovoce.node.gossip.revocation_store import load_revocation_list

    fleet = open_fleet(directory)
    revocations = load_revocation_list(directory, fleet.authority)
    promised = read_promise(directory)
    return {
        "fleet": fleet.name,
        "certificate_expires": fleet.certificate.not_valid_after_utc.isoformat(),
        "promises": "" if promised is None else resolve_budget(promised).description,
        "revocations": 0 if revocations is None else revocations.version,
        "revoked": [] if revocations is None else list(revocations.node_ids),
        "invitations": list_open_invitations(directory),
    }
