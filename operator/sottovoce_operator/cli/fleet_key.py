"""What `sottovoce fleet join`, `renew`, `revoke` and `show` do with the fleet's directory and its key."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from sottovoce.cli.fleet_options import parse_validity
from sottovoce.errors import MessageRefused, UsageError

if TYPE_CHECKING:  # imported late because a command imports this module before it checks its options
    from sottovoce.fleet import Identity
    from sottovoce.node.state_directory import BudgetChoice


def join(directory: Path, state: Path, budget: "BudgetChoice", valid: str | None, vault: Path | None) -> "Identity":
    """Create a device's state directory with a certificate that the key in the fleet's directory signs."""
    from sottovoce_operator.fleet import open_fleet
    from sottovoce_operator.fleet.join import join
    from sottovoce_operator.fleet.promise import read_promise

    fleet = open_fleet(directory)
    return join(fleet, state, budget(read_promise(directory)), parse_validity(valid), vault=vault)


def renew(directory: Path, request: bytes, source: object, valid: str | None) -> bytes:
    """Return the next certificate, PEM, of the device that made a request, called `source` in error messages."""
    from sottovoce.node.gossip.revocation_store import load_revocation_list

    from sottovoce_operator.fleet import open_fleet
    from sottovoce_operator.fleet.request import read_request

    fleet = open_fleet(directory)
    revocations = load_revocation_list(directory, fleet.authority)
    return fleet.renew(
        read_request(request, source), revocations.node_ids if revocations else (), parse_validity(valid)
    )


def serve_renewals(directory: Path, address: str, valid: str | None) -> None:
    """Renew certificates at an address until Ctrl-C."""
    from sottovoce_operator.cli.fleet_invite import make_enroller
    from sottovoce_operator.fleet import open_fleet

    fleet = open_fleet(directory)

    async def serve() -> None:
        enroller = make_enroller(directory, fleet, address, None, valid)
        typer.echo(f"renewing certificates of fleet {fleet.name} at {address} until Ctrl-C", err=True)
        await enroller.serve()

    asyncio.run(serve())


def revoke(directory: Path, node_ids: list[str], out: Path | None) -> None:
    """Sign the fleet's next revocation list, with these devices too."""
    from sottovoce.fleet.files import check_new, exclusive, write_new
    from sottovoce.net.wire.revocation import encode_list
    from sottovoce.node.gossip.revocation_store import NAME

    from sottovoce_operator.fleet import open_fleet
    from sottovoce_operator.fleet.signing import revoke

    check_new([] if out is None else [out])
    try:
        with exclusive(directory):  # so that the key is still the fleet's key when it has signed
            revocations = revoke(directory, open_fleet(directory), node_ids)
    except MessageRefused as error:
        raise UsageError(f"{error}; use ids exactly as printed by `sottovoce fleet show`") from error
    if out is not None:
        write_new({out: encode_list(revocations)})
    file = out or directory / NAME
    typer.echo(
        f"{file}: version {revocations.version}, devices: {len(revocations.node_ids)}. Install it on any one device of "
        "the fleet:"
    )
    typer.echo(f"sottovoce fleet revoke --state DIR --install {file.name}")


def facts(directory: Path) -> dict[str, Any]:
    """Return what `sottovoce fleet show` shows of a fleet's directory."""
    from sottovoce.node.gossip.revocation_store import load_revocation_list
    from sottovoce.node.state_directory import resolve_budget

    from sottovoce_operator.fleet import open_fleet
    from sottovoce_operator.fleet.enroller import list_open_invitations
    from sottovoce_operator.fleet.promise import read_promise

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
