"""Admission to a separate vault: strangers are turned away at once, however busy the vault is.

The kernel holds a few connections that no one has accepted yet. While the vault computes, any local user could fill
that queue; so a separate thread empties it, checks which user connects, and keeps only the agent's connections.
"""

import selectors
import socket
import struct
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sottovoce.threads import Background

_CREDENTIALS = struct.Struct("iII")  # struct ucred: process, user, group
_MAX = 16  # connections that wait for an answer; an agent has one or two
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 1.0  # seconds, while the system refuses


class Admission:
    """Queue of one user's connections, in order of arrival.

    Args:
        listener: accepts connections.
        user: number of the only admitted user.
        turn_away: called for any other user, with the connection, which is closed afterwards, and the user's number. It
            must not wait.
        refused: called when the system refuses a connection, for lack of a descriptor or memory. It is tried again.
    """

    def __init__(
        self,
        listener: socket.socket,
        user: int,
        turn_away: Callable[[socket.socket, int], None],
        refused: Callable[[OSError | MemoryError], None],
    ) -> None:
        self._listener = listener
        self._user = user
        self._turn_away = turn_away
        self._refused = refused
        self._defect: BaseException | None = None
        self._waiting: deque[socket.socket] = deque()
        self._bell, self.waiting = socket.socketpair()
        """`waiting` is readable when a connection waits: see `next`."""
        self._stop, self._stopped = socket.socketpair()
        for end in (self._bell, self.waiting):
            end.setblocking(False)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Admit connections for the duration of the context; connections still waiting are then closed.

        Raises:
            MemoryError, RuntimeError: no thread can be started.
        """
        thread = None
        try:
            thread = Background(self._admit)
            yield
        finally:
            self._stop.send(b"!")
            if thread is not None:
                thread.join()
            while self._waiting:
                self._waiting.popleft().close()
            for end in (self._bell, self.waiting, self._stop, self._stopped):
                end.close()

    def next(self) -> socket.socket | None:
        """Return the connection that has waited longest; None if it has closed in the meantime.

        Raises the error that ended the thread that admits connections: otherwise it would go unnoticed.
        """
        self.waiting.recv(1)
        if self._defect is not None:
            raise self._defect
        return self._waiting.popleft() if self._waiting else None

    def _admit(self) -> None:
        try:
            with selectors.DefaultSelector() as selector:
                self._admit_all(selector)
        except BaseException as defect:  # noqa: BLE001 - raised by `next`
            self._defect = defect
            self._bell.send(b"!")

    def _admit_all(self, selector: selectors.BaseSelector) -> None:
        pause = 0.0
        selector.register(self._stopped, selectors.EVENT_READ)
        while True:
            if pause and selector.select(pause):
                return
            selector.register(self._listener, selectors.EVENT_READ)
            readable = [key.fileobj for key, _ in selector.select()]
            selector.unregister(self._listener)
            if self._stopped in readable:
                return
            pause = self._let_in(pause)

    def _let_in(self, refused: float) -> float:
        """Admit one connection; return the seconds to wait if the system refuses, longer each time."""
        try:
            connection, _ = self._listener.accept()
            with _closed_on_failure(connection):
                self._check_peer(connection)
        except ConnectionError:  # the caller has disconnected
            return 0.0
        except (OSError, MemoryError) as error:
            self._refused(error)
            return min(_LONGEST_PAUSE, 2 * refused or _FIRST_PAUSE)
        return 0.0

    def _check_peer(self, connection: socket.socket) -> None:
        user = peer_user_id(connection)
        if user == self._user and len(self._waiting) < _MAX:
            self._waiting.append(connection)
            self._bell.send(b"!")
            return
        with connection:
            if user != self._user:
                connection.setblocking(False)
                self._turn_away(connection, user)


@contextmanager
def _closed_on_failure(connection: socket.socket) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


def peer_user_id(connection: socket.socket) -> int:
    """Return the number of the user at the other end, as recorded by the kernel when the connection was made."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(raw)[1])
