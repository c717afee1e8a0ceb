"""`sottovoce fleet`: make a fleet, let devices join it, look at them."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sottovoce.errors import UsageError

if TYPE_CHECKING:
    from sottovoce.identity import Validity

app = typer.Typer(help="Make a fleet, let devices join, renew, revoke and show them.", no_args_is_help=True)

FleetDirectory = Annotated[Path, typer.Option("--fleet", help="The fleet's directory, with its key.")]
StateDirectory = Annotated[Path, typer.Option("--state", help="The device's state directory.")]
Valid = Annotated[str | None, typer.Option("--valid", help="How long the certificate holds, for example 90d.")]


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
def show(
    state: Annotated[Path | None, typer.Option("--state", help="The device's state directory.")] = None,
    fleet: Annotated[Path | None, typer.Option("--fleet", help="Instead: the fleet's directory.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Show a device's identity, or a fleet: its certificate, whom it has revoked, which invitations are open."""
    if (state is None) == (fleet is None):
        raise UsageError("name what to show: give either --state DIR or --fleet DIR")
    facts = _device(state) if state is not None else _fleet(fleet or Path())
    if as_json:
        typer.echo(json.dumps(facts))
        return
    for key, value in facts.items():
        for one in (value or ["none"]) if isinstance(value, list) else [value]:
            typer.echo(f"{key:20} {' '.join(one.values()) if isinstance(one, dict) else one}")


def reachable(address: str, option: str, what: str) -> str:
    """An address that another device can connect to; `option` and `what` are for the error.

    Raises:
        UsageError: it is not HOST:PORT, or no place in particular.
    """
    from sottovoce.config.transport import HOST_AND_PORT

    host, _, port = address.rpartition(":")
    if not re.fullmatch(HOST_AND_PORT, address) or not 1 <= int(port) <= 65_535 or host in ("0.0.0.0", "[::]"):  # noqa: S104
        raise UsageError(f"{option}: {address!r} is not where {what}; give HOST:PORT, for example 192.168.1.5:7443")
    return address


def validity_of(valid: str | None) -> "Validity | None":
    """The time from now on that --valid asks for; None without it."""
    from sottovoce.cli.durations import seconds_of
    from sottovoce.identity import Validity

    return None if valid is None else Validity.from_now(seconds_of(valid, "--valid") / 86_400)


def _device(state: Path) -> dict[str, Any]:
    from sottovoce.agent.assemble import IDENTITY
    from sottovoce.identity import load

    identity = load(state / IDENTITY)
    return {
        "id": identity.node_id,
        "fleet": identity.fleet,
        "name": identity.dns_name,
        "certificate_expires": identity.not_after.isoformat(),
    }


def _fleet(directory: Path) -> dict[str, Any]:
    from sottovoce.agent.enroller import open_invitations
    from sottovoce.agent.revocation import kept_list
    from sottovoce.identity import open_fleet

    fleet = open_fleet(directory)
    revoked = kept_list(directory, fleet.authority)
    return {
        "fleet": fleet.name,
        "certificate_expires": fleet.certificate.not_valid_after_utc.isoformat(),
        "revocations": 0 if revoked is None else revoked.version,
        "revoked": [] if revoked is None else list(revoked.node_ids),
        "invitations": open_invitations(directory),
    }
