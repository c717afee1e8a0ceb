"""`sottovoce fleet task`: sign the fleet's task with the fleet's key, and install it on a device."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from sottovoce.cli.fleet_options import FleetDirectory

app = typer.Typer(help="Sign the fleet's next task and install it on a device.", no_args_is_help=True)


@app.command()
def propose(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The task: TOML with [task], [data], [learner].")],
    fleet: FleetDirectory = Path("fleet"),
    out: Annotated[Path | None, typer.Option(help="Write a copy here, to carry to a device.")] = None,
) -> None:
    """Sign a task as the fleet's next one."""
    from sottovoce.agent.fleet_tasks import NAME, propose
    from sottovoce.config import read_proposed_task
    from sottovoce.identity import open_fleet
    from sottovoce.identity.files import check_new, write_new

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
    from sottovoce.agent.assemble import IDENTITY
    from sottovoce.agent.fleet_tasks import store_task
    from sottovoce.identity import load
    from sottovoce.identity.files import read
    from sottovoce.identity.signed_task import read_task

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
