"""Addresses to listen on, and errors about them with the same wording in every command."""

import errno
import os
import socket

from sottovoce.errors import NetworkError

_REMEDIES = {
    errno.EADDRINUSE: "stop what uses it (`ss -ltnp` says what), or choose another address",
    errno.EADDRNOTAVAIL: "give an address of this machine (`ip address` lists them)",
    errno.EACCES: "choose a port above 1023",
}


def split_address(address: str) -> tuple[str, int]:
    """Return the host and port of host:port; an IPv6 address loses its brackets."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def listening_error(address: str) -> OSError | None:
    """Return the error that prevents listening on an address; None if there is none. The socket is closed again."""
    host, port = split_address(address)
    try:
        (family, kind, protocol, _, place), *_ = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # ignore connections that an earlier agent left
            probe.bind(place)
    except OSError as error:
        return error
    except ValueError:  # a name that cannot be resolved
        return socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return None


def cannot_listen(key: str, address: str, error: Exception) -> NetworkError:
    """Return the error for an address that a key of the configuration names."""
    if isinstance(error, socket.gaierror | UnicodeError):
        return NetworkError(f"{key}: cannot listen on {address}: its host name is not known: correct it")
    number = error.errno if isinstance(error, OSError) and error.errno else 0
    why = os.strerror(number).lower() if number else "it cannot be used"
    return NetworkError(f"{key}: cannot listen on {address}: {why}: {_REMEDIES.get(number, 'correct it')}")
