"""Listening addresses of this device: free for its agent, or held by it."""

import errno
import os
import socket
from collections.abc import Callable, Iterator
from functools import partial

from sottovoce.doctor.contact import obstacle, obstacles, split
from sottovoce.doctor.credentials import device
from sottovoce.doctor.finding import Finding, ok, problem
from sottovoce.doctor.subject import Subject
from sottovoce.errors import ExitCode, IdentityError

_REMEDIES = {
    errno.EADDRINUSE: "stop what uses it (`ss -ltnp` says what), or choose another address",
    errno.EADDRNOTAVAIL: "give an address of this machine (`ip address` lists them)",
    errno.EACCES: "choose a port above 1023",
}


def listening(subject: Subject) -> Iterator[Finding]:
    """Whether the agent can listen where it should, or does."""
    config = subject.config
    if config is None:
        return
    if "grpc" in config.transport.use:
        yield _at("transport.listen", config.transport.listen, subject, _ours)
    if config.observe.metrics is not None:
        yield _at("observe.metrics", config.observe.metrics, subject, lambda subject, *_: subject.status is not None)


def _at(key: str, address: str, subject: Subject, ours: Callable[[Subject, str, int], bool]) -> Finding:
    """How it is with one address, which a key of the configuration names."""
    host, port = split(address)
    taken = refusal(host, port)
    if taken is None and subject.status is not None:
        return problem(
            f"{key} {address}: the agent answers on its socket, but does not listen there",
            "its configuration has changed since it was started: start it again",
            ExitCode.NETWORK,
        )
    if taken is None:
        return ok(f"{key} {address}: free")
    if taken != errno.EADDRINUSE:
        remedy = _REMEDIES.get(taken, "correct it")
        return problem(f"{key} {address}: {os.strerror(taken).lower()}", remedy, ExitCode.NETWORK)
    if ours(subject, host, port):
        return ok(f"{key} {address}: held by this device's agent")
    return problem(f"{key} {address}: in use by something else", _REMEDIES[taken], ExitCode.NETWORK)


def refusal(host: str, port: int) -> int | None:
    """The error number with which an address cannot be listened on; None where it can. Nothing is left there."""
    try:
        (family, kind, protocol, _, address), *_ = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # what an agent left an hour ago is no use
            probe.bind(address)
    except (socket.gaierror, ValueError):  # a name that is not known, or of which no question can be made
        return errno.EADDRNOTAVAIL
    except OSError as error:
        return error.errno or errno.EINVAL
    return None


def _ours(subject: Subject, host: str, port: int) -> bool:
    """Whether who listens there proves to be this device."""
    if subject.status is None or subject.state is None or subject.config is None or not subject.open:
        return False
    try:
        identity, tls = device(subject.state, [peer.id for peer in subject.config.transport.peers])
    except IdentityError:
        return True  # nothing can be proved; its agent answers on the socket
    if identity.mode == "pinned":
        return True  # it does not trust itself; its agent answers on the socket
    at = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - nothing is bound here
    return obstacles({0: partial(obstacle, at, port, tls, identity.dns_name)})[0] is None
