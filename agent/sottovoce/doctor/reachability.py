"""Checks that other devices and the broker can be reached and have the right identity."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from sottovoce_bootstrap.sources.invitation import invitation_contacts

from sottovoce.agent.password import read_password
from sottovoce.config import AgentConfig
from sottovoce.doctor.contact import find_connection_error, run_with_deadline
from sottovoce.doctor.credentials import broker_tls_context, device_credentials
from sottovoce.doctor.finding import Finding, ok, problem, warning
from sottovoce.doctor.subject import Subject
from sottovoce.errors import ExitCode, IdentityError
from sottovoce.identity import peer_dns_name
from sottovoce.listening import split_address
from sottovoce.transport import is_direct

_MAX_CONTACTED = 32
_REACH_REMEDY = "start that device's agent, allow the connection (firewall, port forwarding), or correct the address"
_TRUST_REMEDY = (
    "check that both devices joined the same fleet, that both certificates are valid, and that the id and the address "
    "belong to the same device"
)


def peers(subject: Subject) -> Iterator[Finding]:
    """Check that the devices in the configuration and the invitation answer."""
    config, state = subject.config, subject.state
    if config is None or state is None or not subject.is_readable:
        return
    contacts = _contacts(config, state)
    if not contacts:
        if not (config.membership.mdns or config.membership.dns or "mqtt" in config.transport.use):
            yield _no_peers_finding(config)
        return
    try:
        identity, tls = device_credentials(state, [peer.id for peer in config.transport.peers])
    except IdentityError:
        yield warning(
            "not contacted: this device cannot prove its identity",
            "fix its certificates first, then run the doctor again",
        )
        return
    selected_contacts = dict(list(contacts.items())[:_MAX_CONTACTED])
    errors = run_with_deadline(
        {
            (node, address): partial(
                find_connection_error, *split_address(address), tls, peer_dns_name(node, identity.fleet)
            )
            for node, address in selected_contacts.items()
        }
    )
    is_isolated = all(errors.values())
    for (node, address), error in errors.items():
        if error is None:
            yield ok(f"{node} at {address}: answers, and belongs to this fleet")
            continue
        description = f"{node} at {address}: {error}"
        remedy = _TRUST_REMEDY if "certificate" in error else _REACH_REMEDY
        yield problem(description, remedy, ExitCode.NETWORK) if is_isolated else warning(description, remedy)
    if len(contacts) > _MAX_CONTACTED:
        yield ok(f"{len(contacts) - _MAX_CONTACTED} more listed peers were not contacted")


def broker(subject: Subject) -> Iterator[Finding]:
    """Check that the fleet's broker can be reached as configured."""
    config, state = subject.config, subject.state
    if config is None or state is None or "mqtt" not in config.transport.use or not subject.is_readable:
        return
    section = config.transport.mqtt
    host, port = section.address
    if section.password_file is not None:
        read_password("transport.mqtt.password_file", section.password_file)
    error = run_with_deadline({0: partial(find_connection_error, host, port, broker_tls_context(section, state))})[0]
    if error is not None:
        yield problem(
            f"{section.url}: {error}",
            "start the broker, or correct transport.mqtt; docs/how-to/mqtt.md lists the requirements",
            ExitCode.NETWORK,
        )
    else:
        yield ok(f"{section.url}: answers{', with TLS' if section.uses_tls else ''}")


def _contacts(config: AgentConfig, state: Path) -> dict[str, str]:
    """Return the gRPC addresses in the configuration and the invitation, keyed by node id."""
    if "grpc" not in config.transport.use:
        return {}
    invitation_addresses = {
        contact.node_id: next((endpoint for endpoint in contact.endpoints if is_direct(endpoint)), None)
        for contact in invitation_contacts(state)
    }
    configured_addresses = {peer.id: peer.address for peer in config.transport.peers if peer.is_direct}
    addresses = {**invitation_addresses, **configured_addresses}
    return {node: address for node, address in addresses.items() if address is not None}


def _no_peers_finding(config: AgentConfig) -> Finding:
    if config.ledger.alone:
        return ok("no peers are configured, but ledger.alone allows this device to release without peers")
    return warning(
        "no peers configured and discovery is off: nothing will be released until a peer connects",
        "list a peer under transport.peers, or turn on membership.mdns or membership.dns",
    )
