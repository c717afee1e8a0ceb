"""`sottovoce fleet status`: show the fleet as a joined device knows it, and which devices answer now."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from sottovoce.errors import NetworkError

_MAX_CONNECTIONS = 64
_PATIENCE_SECONDS = 30.0  # the queried device needs this time to query the other devices
_HORIZON_PERIODS = 8  # devices stop forwarding a record after this number of gossip periods
_OPTIONAL_FIELDS = ("release", "epoch", "health")
_STATES = ("answers", "heard", "silent", "left", "revoked")
"""Device states. "answers": the device answers a query or accepts a connection now. "heard": the device does neither,
but is reached through a broker, and other devices have mentioned it recently."""


def run_status(
    state: Annotated[Path, typer.Option("--state", help="State directory of a running device.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show the fleet as one running device sees it: online, silent, left and revoked devices."""
    from sottovoce.node.control import ask

    fleet = ask(state, "fleet", _PATIENCE_SECONDS)
    if "error" in fleet:
        raise NetworkError(
            f"{state}: the agent there is running an older release that cannot list the fleet; restart the agent"
        )
    for device in fleet["devices"]:
        for name in _OPTIONAL_FIELDS:
            device.setdefault(name, None)  # not reported by agents of older releases
    errors_by_peer = _probe_peers(state, fleet)
    now = datetime.now(UTC)
    for device in fleet["devices"]:
        device["state"], device["why"] = _classify_device(device, fleet, errors_by_peer)
        expires = device["certificate_expires"]
        device["certificate_days"] = None if expires is None else (datetime.fromisoformat(expires) - now).days
    states = [device["state"] for device in fleet["devices"]]
    fleet["count"] = {name: states.count(name) for name in _STATES}
    if as_json:
        typer.echo(json.dumps(fleet))
        return
    for line in _lines(fleet):
        typer.echo(line)


def _probe_peers(state: Path, fleet: dict[str, Any]) -> dict[str, str | None]:
    """Connect to each peer that has an address, and return the error by node id; None for peers that answer."""
    from functools import partial

    from sottovoce.doctor.network import device_credentials as credentials, find_connection_error, run_with_deadline
    from sottovoce.fleet import peer_dns_name
    from sottovoce.net.listening import split_address
    from sottovoce.net.transports import is_direct

    addresses: dict[str, str] = {}
    for device in fleet["devices"]:
        direct = [endpoint for endpoint in device["endpoints"] if is_direct(endpoint)]
        if direct and not (device["leaving"] or device["revoked"] or device["health"]):
            addresses[device["id"]] = direct[0]
    identity, tls = credentials(state, list(addresses))
    checks = {
        node: partial(find_connection_error, *split_address(address), tls, peer_dns_name(node, identity.fleet))
        for node, address in addresses.items()
    }
    nodes, results = list(checks), dict[str, str | None]()
    for start in range(0, len(nodes), _MAX_CONNECTIONS):
        results.update(run_with_deadline({node: checks[node] for node in nodes[start : start + _MAX_CONNECTIONS]}))
    return results


def _classify_device(
    device: dict[str, Any], fleet: dict[str, Any], errors_by_peer: dict[str, str | None]
) -> tuple[str, str | None]:
    if device["revoked"]:
        return "revoked", None
    if device["leaving"]:
        return "left", None
    reason = errors_by_peer.get(device["id"])
    if device["health"] is not None or (device["id"] in errors_by_peer and reason is None):
        return "answers", None
    by_broker = any(endpoint.startswith("mqtt:") for endpoint in device["endpoints"])
    if device["heard_s"] is None and by_broker:
        return "heard", reason or "reachable only through a broker, and not mentioned by any device; see `agent status`"
    if by_broker and device["heard_s"] <= _HORIZON_PERIODS * fleet["period_s"]:
        return "heard", reason
    return "silent", reason or "not mentioned by any device within the time for which devices forward records"


def _lines(fleet: dict[str, Any]) -> list[str]:
    from sottovoce.cli.output import sanitise

    counts = ", ".join(f"{count} {state}" for state, count in fleet["count"].items() if count)
    lines = [f"fleet {fleet['fleet']}: {len(fleet['devices'])} devices known: {counts}"]
    for device in sorted(fleet["devices"], key=lambda device: (_STATES.index(device["state"]), device["id"])):
        days, heard_seconds = device["certificate_days"], device["heard_s"]
        last_heard = "" if heard_seconds is None else f"heard {heard_seconds:.0f} s ago"
        facts = [
            "this device" if device["id"] == fleet["id"] else last_heard,
            "" if days is None else f"certificate {days} d",
            "" if device["health"] in (None, "well") else sanitise(device["health"]),
            "" if not device["epoch"] else f"epoch {device['epoch']}",
            "" if device["release"] is None else f"release {sanitise(device['release'])}",
            "another task" if device["same_task"] is False else "",
            sanitise(device["why"] or ""),
        ]
        endpoint = device["endpoints"][0] if device["endpoints"] else "-"
        description = "; ".join(fact for fact in facts if fact)
        lines.append(f"{device['state']:9} {device['id']}  {sanitise(endpoint):24} {description}".rstrip())
    return lines
