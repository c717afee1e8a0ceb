"""`sottovoce fleet`: the group of all commands about a fleet, and `fleet show`."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from sottovoce.cli import workstation
from sottovoce.cli.fleet_install import app as task, revoke
from sottovoce.cli.fleet_join import join
from sottovoce.cli.fleet_renew import renew
from sottovoce.errors import UsageError
from sottovoce.plugins.workstation import OPERATOR

app = typer.Typer(help="Create a fleet; add, renew, revoke and list its devices.", no_args_is_help=True)

for name in ("broker", "invite"):
    workstation.add(app, name, group="fleet", package=OPERATOR)
app.command("join")(join)
app.command("renew")(renew)
app.command("revoke")(revoke)
for name in ("rotate", "status"):
    workstation.add(app, name, group="fleet", package=OPERATOR)
app.add_typer(task, name="task")
workstation.add(app, "init", group="fleet", package=OPERATOR)


@app.command()
def show(
    state: Annotated[Path | None, typer.Option("--state", help="The device's state directory.")] = None,
    fleet: Annotated[Path | None, typer.Option("--fleet", help="The fleet's directory, instead of --state.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show a device's identity, or a fleet's certificate, revocations and open invitations."""
    if (state is None) == (fleet is None):
        raise UsageError("specify what to show with either --state DIR or --fleet DIR")
    if state is not None:
        facts = _device_facts(state)
    else:
        facts = workstation.load_module("cli.fleet_key", "fleet show --fleet", OPERATOR).facts(fleet)
    if as_json:
        typer.echo(json.dumps(facts))
        return
    for key, value in facts.items():
        items = (value or ["none"]) if isinstance(value, list) else [value]
        for item in items:
            typer.echo(f"{key:20} {' '.join(item.values()) if isinstance(item, dict) else item}")


def _device_facts(state: Path) -> dict[str, Any]:
    from sottovoce.fleet import load
    from sottovoce.fleet.identity import IDENTITY

    identity = load(state / IDENTITY)
    return {
        "id": identity.node_id,
        "fleet": identity.fleet,
        "name": identity.dns_name,
        "certificate_expires": identity.not_after.isoformat(),
    }
