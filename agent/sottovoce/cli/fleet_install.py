"""`sottovoce fleet task install` and `fleet revoke`: install what the fleet has signed on one of its devices."""

from pathlib import Path
from typing import Annotated

import typer

from sottovoce.cli import workstation
from sottovoce.errors import UsageError
from sottovoce.plugins.workstation import OPERATOR

app = typer.Typer(help="Sign the fleet's next task and install it on a device.", no_args_is_help=True)
workstation.add(app, "propose", group="fleet task", package=OPERATOR)


@app.command()
def install(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The signed task.")],
    state: Annotated[Path, typer.Option("--state", help="The device's state directory.")],
) -> None:
    """Install a signed task on one device, which forwards it to the others."""
    from sottovoce.fleet import load
    from sottovoce.fleet.files import read
    from sottovoce.fleet.identity import IDENTITY
    from sottovoce.fleet.signed_task import read_task, store_task

    authority = load(state / IDENTITY, check_dates=False).authority
    task = read_task(read(file), file)
    task.verify(authority)
    if store_task(state, task, authority):
        typer.echo(f"{state}: epoch {task.epoch}; a running agent checks it and forwards it to the others")
    else:
        typer.echo(f"{state}: already has a task of epoch {task.epoch} or a newer one")


def revoke(
    node_ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="The devices to revoke.")] = None,
    fleet: Annotated[Path | None, typer.Option("--fleet", help="The fleet's directory, with its key.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write a copy of the list here, to carry to a device.")] = None,
    state: Annotated[Path | None, typer.Option("--state", help="A device's state directory.")] = None,
    install: Annotated[
        Path | None, typer.Option(help="Install this list on the device, which forwards it to the others.")
    ] = None,
) -> None:
    """Revoke devices: sign the revocation list and hand it to any one device."""
    if fleet is not None and node_ids and state is None and install is None:
        workstation.load_module("cli.fleet_key", "fleet revoke --fleet", OPERATOR).revoke(fleet, node_ids, out)
    elif state is not None and install is not None and fleet is None and not node_ids and out is None:
        _install(state, install)
    else:
        raise UsageError("use either --fleet DIR ID... [--out FILE], or --state DIR --install FILE")


def _install(state: Path, install: Path) -> None:
    from sottovoce.fleet import load
    from sottovoce.fleet.files import read
    from sottovoce.fleet.identity import IDENTITY
    from sottovoce.node.gossip.revocation_store import read_list, store_key_changes, store_revocation_list

    authority = load(state / IDENTITY, check_dates=False).authority
    revocations = read_list(read(install), authority, install)
    if store_revocation_list(state, revocations, authority):
        store_key_changes(state / IDENTITY, revocations.keys)
        typer.echo(
            f"{state}: version {revocations.version}, {len(revocations.node_ids)} devices; a running agent applies it"
        )
    else:
        typer.echo(f"{state}: already has version {revocations.version} or a newer one")
