"""`sottovoce fleet status`: show the fleet as a joined device knows it, and which devices answer now."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from sottovoce.errors import NetworkError

_AT_ONCE = 64
_PATIENCE_SECONDS = 30.0  # the device needs this time to query the others
_HORIZON_PERIODS = 8  # devices stop forwarding a record after this number of gossip periods
_SAID = ("release", "epoch", "health")
_STATES = ("answers", "heard", "silent", "left", "revoked")
"""Device states: "answers" means that the device answers a query or accepts a connection now; "heard" means that it
does not, but is reached through a broker and has been mentioned recently."""


def status(
    state: Annotated[Path, typer.Option("--state", help="State directory of a running device.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show the fleet as one running device sees it: online, silent, left and revoked devices."""
    from sottovoce.agent.control import ask

    found = ask(state, "fleet", _PATIENCE_SECONDS)
    if "error" in found:
        raise NetworkError(
            f"{state}: the agent there is running an older release that cannot list the fleet; restart it"
        )
    for device in found["devices"]:
        for name in _SAID:
            device.setdefault(name, None)  # an agent of an older release does not report it
    reached = _probe_peers(state, found)
    now = datetime.now(UTC)
    for device in found["devices"]:
        device["state"], device["why"] = _judge_device(device, found, reached)
        expires = device["certificate_expires"]
        device["certificate_days"] = None if expires is None else (datetime.fromisoformat(expires) - now).days
    found["count"] = {one: sum(device["state"] == one for device in found["devices"]) for one in _STATES}
    if as_json:
        typer.echo(json.dumps(found))
        return
    for line in _lines(found):
        typer.echo(line)


def _probe_peers(state: Path, found: dict[str, Any]) -> dict[str, str | None]:
    """Connect to each peer that has an address, and return why it cannot be reached; None for peers that answer."""
    from functools import partial

    from sottovoce.doctor.contact import obstacle, obstacles
    from sottovoce.doctor.credentials import device_credentials as credentials
    from sottovoce.identity import peer_dns_name
    from sottovoce.listening import split_address
    from sottovoce.transport import is_direct

    asked = {
        device["id"]: direct[0]
        for device in found["devices"]
        if not (device["leaving"] or device["revoked"] or device["health"])
        and (direct := [one for one in device["endpoints"] if is_direct(one)])
    }
    identity, tls = credentials(state, list(asked))
    checks = {
        node: partial(obstacle, *split_address(address), tls, peer_dns_name(node, identity.fleet))
        for node, address in asked.items()
    }
    nodes, answers = list(checks), dict[str, str | None]()
    for begin in range(0, len(nodes), _AT_ONCE):
        answers.update(obstacles({node: checks[node] for node in nodes[begin : begin + _AT_ONCE]}))
    return answers


def _judge_device(
    device: dict[str, Any], found: dict[str, Any], reached: dict[str, str | None]
) -> tuple[str, str | None]:
    if device["revoked"]:
        return "revoked", None
    if device["leaving"]:
        return "left", None
    why = reached.get(device["id"])
    if device["health"] is not None or (device["id"] in reached and why is None):
        return "answers", None
    by_broker = any(one.startswith("mqtt:") for one in device["endpoints"])
    if device["heard_s"] is None and by_broker:
        return "heard", why or "reachable only through a broker, and not mentioned by any device; see `agent status`"
    if by_broker and device["heard_s"] <= _HORIZON_PERIODS * found["period_s"]:
        return "heard", why
    return "silent", why or "not mentioned by any device for longer than devices forward news"


def _lines(found: dict[str, Any]) -> list[str]:
    from sottovoce.cli.printable import printable

    counted = ", ".join(f"{count} {state}" for state, count in found["count"].items() if count)
    lines = [f"fleet {found['fleet']}: {len(found['devices'])} devices known: {counted}"]
    for device in sorted(found["devices"], key=lambda device: (_STATES.index(device["state"]), device["id"])):
        days, heard = device["certificate_days"], device["heard_s"]
        facts = [
            "this device" if device["id"] == found["id"] else "" if heard is None else f"heard {heard:.0f} s ago",
            "" if days is None else f"certificate {days} d",
            "" if device["health"] in (None, "well") else printable(device["health"]),
            "" if not device["epoch"] else f"epoch {device['epoch']}",
            "" if device["release"] is None else f"release {printable(device['release'])}",
            "another task" if device["same_task"] is False else "",
            printable(device["why"] or ""),
        ]
        where = device["endpoints"][0] if device["endpoints"] else "-"
        said = "; ".join(fact for fact in facts if fact)
        lines.append(f"{device['state']:9} {device['id']}  {printable(where):24} {said}".rstrip())
    return lines
