"""Listening addresses, and errors about them that have the same wording in every command."""

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


def listening_error(address: str) -> OSError | None:
    """Return the error that prevents listening on an address, or None; the function closes its test socket."""
    host, port = split_address(address)
    try:
        (family, kind, protocol, _, place), *_ = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(
                socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
            )  # ignore connections left over from an earlier agent
            probe.bind(place)
    except OSError as error:
        return error
    except ValueError:  # a name that cannot be resolved
        return socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return None


def cannot_listen(key: str, address: str, error: Exception) -> NetworkError:
    """Return the error for an address that a configuration key specifies."""
    if isinstance(error, socket.gaierror | UnicodeError):
        return NetworkError(f"{key}: cannot listen on {address}, because the host name is unknown; correct it")
    number = error.errno if isinstance(error, OSError) and error.errno else 0
    why = os.strerror(number).lower() if number else "the address cannot be used"
    return NetworkError(f"{key}: cannot listen on {address}: {why}: {_REMEDIES.get(number, 'correct it')}")
