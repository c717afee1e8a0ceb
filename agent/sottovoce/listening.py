"""Listening addresses, and error messages about them that all commands share."""

import errno
import os
import socket

from sottovoce.errors import NetworkError

_REMEDIES = {
    errno.EADDRINUSE: "stop the program that uses it (`ss -ltnp` shows which), or choose another address",
    errno.EADDRNOTAVAIL: "choose an address of this machine (`ip address` lists them)",
    errno.EACCES: "choose a port above 1023",
}


def split_address(address: str) -> tuple[str, int]:
    """Split host:port into host and port, removing the brackets of an IPv6 address."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def find_listening_error(address: str) -> OSError | None:
    """Return the error that prevents listening on an address, or None if a test socket can be bound to it."""
    host, port = split_address(address)
    try:
        (family, socket_type, protocol, _, socket_address), *_ = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        with socket.socket(family, socket_type, protocol) as probe:
            # Connections left over from an earlier agent do not block the address.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(socket_address)
    except OSError as error:
        return error
    except ValueError:  # a name that cannot be resolved
        return socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return None


def make_listening_error(key: str, address: str, error: Exception) -> NetworkError:
    """Return the error for listening on an address that a configuration key specifies."""
    if isinstance(error, socket.gaierror | UnicodeError):
        return NetworkError(f"{key}: cannot listen on {address}, because the host name is unknown; correct it")
    number = error.errno if isinstance(error, OSError) and error.errno else 0
    reason = os.strerror(number).lower() if number else "the address cannot be used"
    return NetworkError(f"{key}: cannot listen on {address}: {reason}: {_REMEDIES.get(number, 'correct it')}")
