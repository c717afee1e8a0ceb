"""`sottovoce fleet broker`: what a Mosquitto of the fleet needs."""

from pathlib import Path
from typing import Annotated

import typer


def broker(
    host: Annotated[
        list[str], typer.Option(help="Name or address by which devices call the broker; more than one may be given.")
    ],
    fleet: Annotated[Path, typer.Option("--fleet", help="The fleet's directory, with its key.")] = Path("fleet"),
    out: Annotated[Path, typer.Option(help="Directory to write.")] = Path("broker"),
    port: Annotated[int, typer.Option(min=1, max=65_535, help="On which the broker listens.")] = 8883,
    user: Annotated[
        str | None, typer.Option(help="Who Mosquitto becomes when root starts it; its own user without it.")
    ] = None,
    home: Annotated[
        Path | None, typer.Option("--at", help="Where the directory will be on the broker's host, if not at --out.")
    ] = None,
) -> None:
    """Write a hardened Mosquitto: its certificate, its configuration, and what each device may do."""
    from sottovoce.identity import open_fleet
    from sottovoce.transport.mosquitto import write_broker

    configuration = write_broker(open_fleet(fleet), out, host, port=port, user=user, home=home)
    typer.echo(
        f"broker: made in {out}. Start it with: mosquitto -c {(home or configuration.parent) / configuration.name}"
    )
    typer.echo(f'Agents: [transport] use = ["mqtt"] and [transport.mqtt] url = "mqtts://{host[0]}:{port}"')
