"""`sottovoce fleet task` and `revoke`: sign the fleet's task, or a revocation of devices."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from sottovoce.cli.fleet_options import FleetDirectory
from sottovoce.errors import MessageRefused, UsageError

app = typer.Typer(help="Sign the fleet's next task and install it on a device.", no_args_is_help=True)


@app.command()
def propose(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The task: TOML with [task], [data], [learner].")],
    fleet: FleetDirectory = Path("fleet"),
    out: Annotated[Path | None, typer.Option(help="Also write a copy to this path, to take to a device.")] = None,
) -> None:
    """Sign a task as the fleet's next task."""
    from sottovoce.config import read_proposed_task
    from sottovoce.fleet import open_fleet
    from sottovoce.fleet.files import check_new, write_new
    from sottovoce.node.fleet_tasks import NAME, propose

    tables, schedule = read_proposed_task(file)
    check_new([] if out is None else [out])
    task = propose(fleet, open_fleet(fleet), tables, schedule)
    if out is not None:
        write_new({out: task.encoding})
    path = out or fleet / NAME
    times = _describe_times(task.begins, task.ends)
    typer.echo(f"{path}: epoch {task.epoch}{times}. Install it on any one device of the fleet:")
    typer.echo(f"sottovoce fleet task install {path.name} --state DIR")


@app.command()
def install(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The signed task.")],
    state: Annotated[Path, typer.Option("--state", help="The device's state directory.")],
) -> None:
    """Install a signed task on one device, which forwards it to the others."""
    from sottovoce.fleet import load
    from sottovoce.fleet.files import read
    from sottovoce.fleet.signed_task import read_task
    from sottovoce.node.assemble import IDENTITY
    from sottovoce.node.fleet_tasks import store_task

    authority = load(state / IDENTITY, check_dates=False).authority
    task = read_task(read(file), file)
    task.verify(authority)
    if store_task(state, task, authority):
        typer.echo(f"{state}: epoch {task.epoch}; a running agent checks it and forwards it to the others")
    else:
        typer.echo(f"{state}: already has a task of epoch {task.epoch} or a newer one")


def _describe_times(begins: int, ends: int | None) -> str:
    start = f", from {_date(begins)}" if begins else ""
    return start + ("" if ends is None else f", until {_date(ends)}")


def _date(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


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
        _revoke(fleet, node_ids, out)
    elif state is not None and install is not None and fleet is None and not node_ids and out is None:
        _install(state, install)
    else:
        raise UsageError("use either --fleet DIR ID... [--out FILE], or --state DIR --install FILE")


def _revoke(directory: Path, node_ids: list[str], out: Path | None) -> None:
    from sottovoce.fleet import open_fleet
    from sottovoce.fleet.files import check_new, write_new
    from sottovoce.net.wire.revocation import encode_list
    from sottovoce.node.gossip.revocation_store import NAME, revoke

    check_new([] if out is None else [out])
    try:
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


def _install(state: Path, install: Path) -> None:
    from sottovoce.fleet import load
    from sottovoce.fleet.files import read
    from sottovoce.node.assemble import IDENTITY
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
