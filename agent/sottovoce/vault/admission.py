"""Who may wait for a separate vault's attention: strangers are turned away at once, however busy the vault is.

The kernel holds a few connections that nobody has accepted yet. While the vault computes, any local user could fill
that queue; so a thread of its own empties it, looks who is there, and keeps the agent's connections alone.
"""

import selectors
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_CREDENTIALS = struct.Struct("iII")  # struct ucred: process, user, group
_MOST = 16  # connections that wait for an answer; an agent has one or two


class Admission:
    """Connections of one user, in their order.

    Args:
        listener: accepts connections.
        user: the number of the only user that is let in.
        turn_away: told of anybody else: the connection, which is closed afterwards, and the user's number. It must not
            wait.
    """

    def __init__(self, listener: socket.socket, user: int, turn_away: Callable[[socket.socket, int], None]) -> None:
        self._listener = listener
        self._user = user
        self._turn_away = turn_away
        self._waiting: deque[socket.socket] = deque()
        self._bell, self.waiting = socket.socketpair()
        """`waiting` can be read when somebody is: see `next`."""
        self._stop, self._stopped = socket.socketpair()
        for end in (self._bell, self.waiting):
            end.setblocking(False)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Let people in until the end; who waits then is sent away."""
        thread = threading.Thread(target=self._admit, name="admission", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.send(b"!")
            thread.join()
            while self._waiting:
                self._waiting.popleft().close()
            for end in (self._bell, self.waiting, self._stop, self._stopped):
                end.close()

    def next(self) -> socket.socket | None:
        """The connection that has waited longest; None where it has gone meanwhile."""
        self.waiting.recv(1)
        return self._waiting.popleft() if self._waiting else None

    def _admit(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._stopped, selectors.EVENT_READ)
            while True:
                readable = [key.fileobj for key, _ in selector.select()]
                if self._stopped in readable:
                    return
                self._let_in()

    def _let_in(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # it has gone again, or this process has no descriptor left for it
            return
        user = peer(connection)
        if user == self._user and len(self._waiting) < _MOST:
            self._waiting.append(connection)
            self._bell.send(b"!")
            return
        with connection:
            if user != self._user:
                connection.setblocking(False)
                self._turn_away(connection, user)


def peer(connection: socket.socket) -> int:
    """The number of the user at the other end, as the kernel noted it when the connection was made."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(raw)[1])
