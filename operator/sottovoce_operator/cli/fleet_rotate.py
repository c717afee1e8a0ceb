"""`sottovoce fleet rotate`: replace the fleet's key."""

from pathlib import Path
from typing import Annotated

import typer
from sottovoce.cli.fleet_options import FleetDirectory, parse_duration
from sottovoce.errors import UsageError

_DEFAULT_ACCEPT = "30d"
_MIN_SECONDS = 3600


def run_rotate(
    fleet: FleetDirectory = Path("fleet"),
    spare: Annotated[Path | None, typer.Option(help="The spare key's directory, if the current key is lost.")] = None,
    state: Annotated[
        Path | None,
        typer.Option("--state", help="With --spare: any device's state directory, if the fleet directory is lost too."),
    ] = None,
    accept: Annotated[
        str, typer.Option(help="How long certificates signed by the old key stay valid.")
    ] = _DEFAULT_ACCEPT,
) -> None:
    """Replace the fleet's key. Devices forward the new key and renew their certificates before the old ones expire."""
    from sottovoce.node.gossip.revocation_store import NAME

    from sottovoce_operator.fleet.ca import SPARE
    from sottovoce_operator.fleet.rotation import rotate as rotate_by_current, rotate_with_spare

    if state is not None and spare is None:
        raise UsageError(
            "--state requires --spare: without --spare, the fleet's directory contains everything the fleet has signed"
        )
    seconds = int(parse_duration(accept, "--accept"))
    if seconds < _MIN_SECONDS:
        raise UsageError(
            f"--accept: {accept} is too short for devices to learn of the new key; use at least 1h, preferably 90d"
        )
    if spare is None:
        rotate_by_current(fleet, seconds)
    else:
        rotate_with_spare(fleet, spare, state, seconds)
    typer.echo(f"{fleet}: the new key is now in use; certificates signed by the old key stay valid for {accept}.")
    if (fleet / SPARE).exists():
        typer.echo(f"Move {fleet / SPARE}, the spare key, to another medium.")
    typer.echo(
        f"Install the list on any one device of the fleet: sottovoce fleet revoke --state DIR --install {fleet / NAME}"
    )
