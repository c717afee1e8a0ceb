"""Checks of the network: this device's listening addresses, other devices and the broker."""

import errno
import socket
import ssl
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

from sottovoce_bootstrap.sources.invitation import invitation_contacts

from sottovoce.config import AgentConfig, MqttSection
from sottovoce.doctor.finding import Finding, error_finding, ok, problem, warning
from sottovoce.doctor.subject import Subject
from sottovoce.errors import ConfigError, ExitCode, IdentityError
from sottovoce.fleet import Identity, load, peer_dns_name
from sottovoce.fleet.identity import FLEET_CERTIFICATE, TLS_CERTIFICATE, TLS_KEY
from sottovoce.net.listening import find_listening_error, make_listening_error, split_address
from sottovoce.net.transports import is_direct
from sottovoce.node.network import read_password
from sottovoce.node.state_directory import state_files


def device_credentials(state: Path, peers: list[str]) -> tuple[Identity, ssl.SSLContext]:
    """Return the device's identity, and a TLS context equivalent to its agent's for connections to other devices.

    Raises:
        IdentityError: if the device's keys and certificates cannot be used.
    """
    directory, _ = state_files(state)
    identity = load(directory, peers=peers, check_dates=False)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["h2"])
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as in gRPC, the trusted issuer may be an intermediate CA
    try:
        context.load_verify_locations(cadata=identity.ca_pem.decode())
        context.load_cert_chain(directory / TLS_CERTIFICATE, directory / TLS_KEY)
    except (OSError, ValueError) as error:
        raise IdentityError(f"{directory}: the certificates cannot be used for TLS: enrol again") from error
    return identity, context


def broker_tls_context(section: MqttSection, state: Path) -> ssl.SSLContext | None:
    """Return a TLS context equivalent to the agent's for the fleet's broker; None for a broker without TLS.

    Raises:
        ConfigError: if the authority's file or the device's certificate cannot be used.
    """
    if not section.uses_tls:
        return None
    directory, _ = state_files(state)
    authority = section.ca or directory / FLEET_CERTIFICATE
    try:
        context = ssl.create_default_context(cafile=authority)
        context.load_cert_chain(directory / TLS_CERTIFICATE, directory / TLS_KEY)
    except OSError as error:
        raise ConfigError(
            f"transport.mqtt.ca: cannot load {authority} and the device's certificate: {error}"
        ) from error
    return context


DEADLINE = 6.0
"""Time limit in seconds for all concurrent connections of one check."""

_CONNECT_SECONDS = 5.0
_REFUSAL_SECONDS = 0.5  # time for a TLS 1.3 peer to report a refused certificate; a broker that accepts it is silent
K = TypeVar("K", bound=Hashable)

_CLOSED = "the other side closed the connection: it rejects this device's certificate, or it is a different program"
_REFUSALS = {
    "certificate has expired": "its certificate has expired",
    "not yet valid": "its certificate is not yet valid: one of the two clocks is wrong",
    "mismatch": "the certificate of the device or host that answers there does not contain the expected name",
    "self-signed": "its certificate is from another fleet, or from an authority not trusted here",
    "unable to get local issuer": "its certificate is from another fleet, or from an authority not trusted here",
    "WRONG_VERSION_NUMBER": "the program that listens there does not use TLS",
    "ALERT": "the other side does not accept this device's certificate, which is expired or from another fleet",
}


def find_connection_error(
    host: str, port: int, tls: ssl.SSLContext | None = None, name: str | None = None
) -> str | None:
    """Try to connect to an address, and return a description of the error; None if the connection succeeds.

    Args:
        host: host name or address.
        port: TCP port.
        tls: TLS context; None for a connection without TLS.
        name: name that the certificate must contain; the host by default.
    """
    try:
        with socket.create_connection((host, port), timeout=_CONNECT_SECONDS) as plain:
            if tls is None:
                return None
            with tls.wrap_socket(plain, server_hostname=name or host) as connection:
                return _server_refusal(connection)
    except ssl.SSLError as error:  # handled first, because some of these errors are also ValueErrors
        return _describe_error(error)
    except (socket.gaierror, ValueError):
        return "the host name cannot be resolved"
    except TimeoutError:
        return f"no answer within {_CONNECT_SECONDS:g} s"
    except ConnectionRefusedError:
        return "nothing listens there"
    except (ConnectionResetError, BrokenPipeError):
        return _CLOSED
    except OSError as error:
        return error.strerror or "the address cannot be reached"


def _server_refusal(connection: ssl.SSLSocket) -> str | None:
    """Return the server's refusal of this device's certificate, which TLS 1.3 reports only after the handshake."""
    connection.settimeout(_REFUSAL_SECONDS)
    try:
        return None if connection.recv(1) else _CLOSED
    except TimeoutError:
        return None


def _describe_error(error: ssl.SSLError) -> str:
    message = str(error)
    for part, description in _REFUSALS.items():
        if part in message:
            return description
    return f"the TLS handshake failed ({error.reason or 'unknown'})"


def run_with_deadline(checks: Mapping[K, Callable[[], str | None]], seconds: float = DEADLINE) -> dict[K, str | None]:
    """Run all checks concurrently, and return at the deadline, because resolving a name can take minutes.

    Args:
        checks: checks to run, by key.
        seconds: time limit for all checks together.

    Returns:
        The results by key; for a check that did not end in time, a message about the missing answer.
    """
    timeout_message = f"no answer within {seconds:g} s, perhaps from the name server"
    results: dict[K, str | None] = dict.fromkeys(checks, timeout_message)
    done = threading.Semaphore(0)

    def run(key: K, check: Callable[[], str | None]) -> None:
        result = check()
        results[key] = result
        done.release()

    for key, check in checks.items():  # daemon threads, because a hanging name server must not keep the process alive
        threading.Thread(target=run, args=(key, check), daemon=True).start()
    deadline = time.monotonic() + seconds
    for _ in checks:
        done.acquire(timeout=max(0.0, deadline - time.monotonic()))
    return dict(results)


def listening(subject: Subject) -> Iterator[Finding]:
    """Check that the agent listens, or could listen, at its configured addresses."""
    config = subject.config
    if config is None:
        return
    if "grpc" in config.transport.use:
        yield _check_address("transport.listen", config.transport.listen, subject, _is_own_listener)
    if config.observe.metrics is not None:
        yield _check_address(
            "observe.metrics", config.observe.metrics, subject, lambda subject, *_: subject.status is not None
        )


def _check_address(
    key: str, address: str, subject: Subject, is_own_listener: Callable[[Subject, str, int], bool]
) -> Finding:
    """Return the finding about one address, which the configuration key `key` sets."""
    host, port = split_address(address)
    bind_error = find_listening_error(address)
    if bind_error is None and subject.status is not None:
        return problem(
            f"{key} {address}: the agent answers on its socket, but does not listen there",
            "the configuration has changed since the agent was started: restart the agent",
            ExitCode.NETWORK,
        )
    if bind_error is None:
        return ok(f"{key} {address}: free")
    if bind_error.errno == errno.EADDRINUSE and is_own_listener(subject, host, port):
        return ok(f"{key} {address}: used by this device's agent")
    return error_finding(make_listening_error(key, address, bind_error))


def _is_own_listener(subject: Subject, host: str, port: int) -> bool:
    """Return whether the listener at this address is this device's agent, as far as can be verified."""
    if subject.status is None or subject.state is None or subject.config is None or not subject.is_readable:
        return False
    try:
        identity, tls = device_credentials(subject.state, [peer.id for peer in subject.config.transport.peers])
    except IdentityError:
        return True  # this cannot be verified, but the agent answers on its socket
    if identity.mode == "pinned":
        return True  # a pinned device does not trust itself, but the agent answers on its socket
    target = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - no address is bound here
    return run_with_deadline({0: partial(find_connection_error, target, port, tls, identity.dns_name)})[0] is None


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
        "no peers are configured, and discovery is off: nothing will be released until a peer connects",
        "list a peer under transport.peers, or turn on membership.mdns or membership.dns",
    )
