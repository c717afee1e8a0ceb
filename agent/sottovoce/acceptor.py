"""Acceptance of connections that continues even if the process temporarily runs out of descriptors or memory."""

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Any

_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 1.0  # seconds, while the operating system refuses to accept


class Acceptor:
    """Accepts connections to one listening socket in the running event loop.

    Args:
        listener: a bound, listening socket; closed by `stop`.
        on_connection: callback for each connection and its address. The callback owns the connection unless it raises,
            and returns the number of seconds to wait before the next connection is accepted.
        on_error: callback for each operating system error; accepting is retried after a pause of up to one second.
    """

    def __init__(
        self,
        listener: socket.socket,
        on_connection: Callable[[socket.socket, Any], float],
        on_error: Callable[[OSError | MemoryError], None],
    ) -> None:
        self._listening = listener
        self._on_connection = on_connection
        self._on_error = on_error
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
        """Accept one connection, then pause if necessary."""
        try:
            pause = self._accept_next()
            self._retry_pause = 0.0
        except (OSError, MemoryError) as error:
            pause = self._retry_pause = min(_LONGEST_PAUSE, 2 * self._retry_pause or _FIRST_PAUSE)
            if not isinstance(error, ConnectionError):  # ConnectionError: the client has disconnected
                self._on_error(error)
        if pause:
            self._pause_accepting(pause)

    def _accept_next(self) -> float:
        try:
            client, address = self._listening.accept()
        except BlockingIOError:
            return 0.0
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
