"""Acceptance of connections for as long as a process runs, even while it has no descriptors or no memory left."""

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Any

_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 1.0  # seconds, while the system refuses


class Acceptor:
    """Acceptor of connections to one listening socket, in the running event loop.

    Args:
        listening: a bound socket that listens; closed by `stop`.
        opened: called with each connection and its address. It owns the connection unless it raises, and returns the
            seconds to wait before the next one.
        failed: called with each error of the operating system; another try follows, after pauses of up to a second.
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
        """Accept one connection, and pause if necessary."""
        try:
            pause = self._next()
            self._refused = 0.0
        except (OSError, MemoryError) as error:
            pause = self._refused = min(_LONGEST_PAUSE, 2 * self._refused or _FIRST_PAUSE)
            if not isinstance(error, ConnectionError):  # ConnectionError: the caller is gone
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
        """Wait this many seconds before accepting again; meanwhile the event loop continues."""
        try:
            self._pause = self._loop.call_later(seconds, self._resume)
        except MemoryError:
            time.sleep(_FIRST_PAUSE)  # needs no descriptor, and does not spin
        else:
            self._loop.remove_reader(self._listening.fileno())
