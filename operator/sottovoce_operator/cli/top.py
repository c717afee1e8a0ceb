"""`sottovoce top`: watch the current state of a device or of a whole testbed."""

import json
import math
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from sottovoce.cli import workstation
from sottovoce.cli.doctor import INSTALLED
from sottovoce.errors import UsageError

if TYPE_CHECKING:
    from sottovoce_operator.cli.top_devices import Devices


def run_top(
    directory: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DIRECTORY]",
            help="The testbed's directory, with --testbed.",
            show_default="your most recent testbed",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="The agent's configuration file.", show_default=f"{INSTALLED}, if it exists", readable=False),
    ] = None,
    state: Annotated[
        Path | None, typer.Option(help="The agent's state directory; use instead of --config.", readable=False)
    ] = None,
    testbed: Annotated[bool, typer.Option("--testbed", help="Watch all agents of a running testbed.")] = False,
    every: Annotated[float, typer.Option(help="Seconds between updates.", min=0.1, max=3600)] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print the current state once and exit.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the current state as one JSON document.")] = False,
) -> None:
    """Watch a device or a running testbed: peers, cycles, ε, traffic and memory. Press q to quit."""
    if math.isnan(every):
        raise UsageError("--every nan: must be a number of seconds from 0.1 to 3600")
    devices = _devices(directory, config, state, testbed)
    if as_json or once or not _on_terminal():
        snapshot = _snapshot_with_rates(devices, every)
        if as_json:
            typer.echo(json.dumps(snapshot, ensure_ascii=False))
        else:
            from sottovoce_operator.cli.top_screen import print_snapshot

            print_snapshot(snapshot)
        return
    from sottovoce_operator.cli.top_screen import Screen

    with Screen() as screen:
        while True:
            snapshot = devices.take_snapshot()
            screen.show(snapshot)
            if snapshot["testbed"] is not None and not snapshot["testbed"]["exists"]:
                break
            if screen.wait(every):
                return
    typer.echo("the testbed has ended")


def _on_terminal() -> bool:
    """Return whether standard output is a terminal that can be redrawn."""
    return sys.stdout.isatty() and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")


def _devices(directory: Path | None, config: Path | None, state: Path | None, testbed: bool) -> "Devices":
    """Return the devices to watch.

    Raises:
        UsageError: if the options conflict, or no readable device is specified.
    """
    from sottovoce_operator.cli.top_devices import Devices

    if directory is not None and not testbed:
        raise UsageError(
            f"{directory}: a directory can only be given with --testbed; specify a device with --config or --state"
        )
    if testbed:
        if config is not None or state is not None:
            raise UsageError("--testbed shows all agents of the testbed: omit --config and --state")
        testbeds = workstation.load_module("testbed.running", "top --testbed")
        directory = testbeds.newest_testbed() if directory is None else directory
        agents = testbeds.state_directories(directory)
        if not agents:
            raise UsageError(
                f"{directory}: the directory does not contain any testbed agents; use the value of testbed.directory"
            )
        return Devices(agents, directory)
    if config is None and state is None and INSTALLED.exists():
        config = INSTALLED
    if (config is None) == (state is None):
        raise UsageError("specify what to watch: --config FILE or --state DIRECTORY for a device, or --testbed")
    if state is None:
        from sottovoce.config import load

        state = load(config or INSTALLED).agent.state
    if not state.is_dir():
        raise UsageError(f"{state}: no such state directory; use the one created by `sottovoce fleet join`")
    if not os.access(state, os.R_OK | os.X_OK):
        raise UsageError(f"{state}: this user may not read the directory; run the command as its owner")
    return Devices([state])


def _snapshot_with_rates(devices: "Devices", pause: float) -> dict[str, Any]:
    """Take two snapshots and return the second, which includes rates."""
    devices.take_snapshot()
    time.sleep(pause)
    return devices.take_snapshot()
