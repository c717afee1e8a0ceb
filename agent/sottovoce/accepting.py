"""Accept connections for as long as a process runs, even if it temporarily runs out of descriptors or memory."""

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Any

_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 1.0  # seconds, while the operating system refuses to accept


class Acceptor:
    """Accepts connections to one listening socket in the running event loop.

    Args:
        listening: a bound, listening socket; closed by `stop`.
        opened: callback for each connection and its address. The callback owns the connection unless it raises, and
            returns the number of seconds to wait before the next connection is accepted.
        failed: callback for each operating system error; accepting is retried after a pause of up to one second.
    """

    def __init__(
        self,
        listening: socket.socket,
        opened: Callable[[socket.socket, Any], float],
        failed: Callable[[OSError | MemoryError], None],
    ) -> None:
        self._listening = listening
        self._opened = opened
        self._failed = failed
        self._refused = 0.0
        self._pause: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        listening.setblocking(False)
        self._resume()

    def stop(self) -> None:
        """Stop accepting connections."""
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._listening.fileno())
        self._listening.close()

    def _resume(self) -> None:
        self._loop.add_reader(self._listening.fileno(), self._accept)

    def _accept(self) -> None:
        """Accept one connection, then pause if necessary."""
        try:
            pause = self._next()
            self._refused = 0.0
        except (OSError, MemoryError) as error:
            pause = self._refused = min(_LONGEST_PAUSE, 2 * self._refused or _FIRST_PAUSE)
            if not isinstance(error, ConnectionError):  # ConnectionError: the caller has disconnected
                self._failed(error)
        if pause:
            self._pause_accepting(pause)

    def _next(self) -> float:
        try:
            caller, address = self._listening.accept()
        except BlockingIOError:
            return 0.0
        try:
            return self._opened(caller, address)
        except BaseException:
            caller.close()
            raise

    def _pause_accepting(self, seconds: float) -> None:
        """Stop accepting for some seconds without blocking the event loop."""
        try:
            self._pause = self._loop.call_later(seconds, self._resume)
        except MemoryError:
            time.sleep(_FIRST_PAUSE)  # needs no descriptor and avoids a busy loop
        else:
            self._loop.remove_reader(self._listening.fileno())
