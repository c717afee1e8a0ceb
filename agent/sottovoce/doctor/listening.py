"""Check that this device's listening addresses are free for its agent or already used by it."""

import errno
from collections.abc import Callable, Iterator
from functools import partial

from sottovoce.doctor.contact import find_connection_error, run_with_deadline
from sottovoce.doctor.credentials import device_credentials
from sottovoce.doctor.finding import Finding, error_finding, ok, problem
from sottovoce.doctor.subject import Subject
from sottovoce.errors import ExitCode, IdentityError
from sottovoce.listening import find_listening_error, make_listening_error, split_address


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
