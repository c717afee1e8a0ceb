"""Listening addresses, and an acceptor that keeps accepting connections when descriptors or memory run out."""

import asyncio
import errno
import os
import socket
import time
from collections.abc import Callable
from typing import Any

from sottovoce.errors import NetworkError

_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 1.0  # seconds to wait after the operating system refuses to accept a connection


class Acceptor:
    """Accepts connections to one listening socket in the running event loop.

    Args:
        listener: a bound, listening socket; closed by `stop`.
        on_connection: callback for each connection and its address. The callback owns the connection unless it raises,
            and returns the number of seconds to wait before the next connection is accepted.
        batch: number of connections to accept in one turn of the event loop, followed by the sum of their pauses.
        on_error: callback for each operating system error; accepting is retried after a pause of up to one second.
    """

    def __init__(
        self,
        listener: socket.socket,
        on_connection: Callable[[socket.socket, Any], float],
        on_error: Callable[[OSError | MemoryError], None],
        *,
        batch: int = 1,
    ) -> None:
        self._listening = listener
        self._on_connection = on_connection
        self._on_error = on_error
        self._batch = batch
        self._retry_pause = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        listener.setblocking(False)
        self._resume()

    def stop(self) -> None:
        """Stop accepting connections."""
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self._listening.fileno())
        self._listening.close()

    def _resume(self) -> None:
        self._loop.add_reader(self._listening.fileno(), self._accept)

    def _accept(self) -> None:
        """Accept the next connections, then pause if necessary."""
        pause = 0.0
        try:
            for _ in range(self._batch):
                if (next_pause := self._accept_next()) is None:
                    break
                pause += next_pause
            self._retry_pause = 0.0
        except (OSError, MemoryError) as error:
            pause = self._retry_pause = min(_LONGEST_PAUSE, 2 * self._retry_pause or _FIRST_PAUSE)
            if not isinstance(error, ConnectionError):  # ConnectionError: the client has disconnected
                self._on_error(error)
        if pause:
            self._pause_accepting(pause)

    def _accept_next(self) -> float | None:
        """Accept a connection; return the seconds to pause for it, or None if there is none."""
        try:
            client, address = self._listening.accept()
        except BlockingIOError:
            return None
        try:
            return self._on_connection(client, address)
        except BaseException:
            client.close()
            raise

    def _pause_accepting(self, seconds: float) -> None:
        """Stop accepting for some seconds without blocking the event loop."""
        try:
            self._timer = self._loop.call_later(seconds, self._resume)
        except MemoryError:
            time.sleep(_FIRST_PAUSE)  # needs no descriptor and avoids a busy loop
        else:
            self._loop.remove_reader(self._listening.fileno())


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
