"""`sottovoce fleet broker`: set up the fleet's MQTT broker."""

from pathlib import Path
from typing import Annotated

import typer


def run_broker(
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
    from sottovoce_operator.fleet import open_fleet
    from sottovoce_operator.fleet.mosquitto import write_broker

    configuration = write_broker(open_fleet(fleet), out, host, port=port, user=user, home=home)
    typer.echo(
        f"broker: created in {out}. Start it with: mosquitto -c {(home or configuration.parent) / configuration.name}"
    )
    typer.echo(f'Agents: [transport] use = ["mqtt"] and [transport.mqtt] url = "mqtts://{host[0]}:{port}"')
