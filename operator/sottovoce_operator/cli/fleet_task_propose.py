"""`sottovoce fleet task propose`: sign the fleet's next task."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from sottovoce.cli.fleet_options import FleetDirectory


def run_propose(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The task: TOML with [task], [data], [learner].")],
    fleet: FleetDirectory = Path("fleet"),
    out: Annotated[Path | None, typer.Option(help="Also write a copy to this path, to take to a device.")] = None,
) -> None:
    """Sign a task as the fleet's next task."""
    from sottovoce.config import read_proposed_task
    from sottovoce.fleet.files import check_new, exclusive, write_new
    from sottovoce.fleet.signed_task import TASK_FILE as NAME

    from sottovoce_operator.fleet import open_fleet
    from sottovoce_operator.fleet.signing import propose

    tables, schedule = read_proposed_task(file)
    check_new([] if out is None else [out])
    with exclusive(fleet):  # so that the key is still the fleet's key when it has signed
        task = propose(fleet, open_fleet(fleet), tables, schedule)
    if out is not None:
        write_new({out: task.encoding})
    path = out or fleet / NAME
    times = _describe_times(task.begins, task.ends)
    typer.echo(f"{path}: epoch {task.epoch}{times}. Install it on any one device of the fleet:")
    typer.echo(f"sottovoce fleet task install {path.name} --state DIR")


def _describe_times(begins: int, ends: int | None) -> str:
    start = f", from {_date(begins)}" if begins else ""
    return start + ("" if ends is None else f", until {_date(ends)}")


def _date(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
