"""Admission control for a separate vault: every user except the agent's is refused at once, even while it is busy.

The kernel queues a few connections until they are accepted. While the vault computes, any local user could fill that
queue. A separate thread therefore empties it, checks which user is connecting, and keeps only the agent's connections.
"""

import selectors
import socket
import struct
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sottovoce.concurrency import BackgroundThread

_CREDENTIALS = struct.Struct("iII")  # struct ucred: process, user, group
_MAX_WAITING = 16  # connections that may wait for an answer; an agent has one or two
_FIRST_PAUSE, _MAX_PAUSE = 0.01, 1.0  # seconds to wait before retrying when the system refuses a connection


class Admission:
    """A queue of one user's connections, in order of arrival.

    Args:
        listener: the socket that accepts connections.
        user: numeric id of the only admitted user.
        turn_away: called for any other user, with the connection and the user id. It must not block. The connection is
            closed afterwards.
        on_refusal: called when the system refuses a connection because descriptors or memory are exhausted. The
            connection is retried.
    """

    def __init__(
        self,
        listener: socket.socket,
        user: int,
        turn_away: Callable[[socket.socket, int], None],
        on_refusal: Callable[[OSError | MemoryError], None],
    ) -> None:
        self._listener = listener
        self._user = user
        self._turn_away = turn_away
        self._on_refusal = on_refusal
        self._defect: BaseException | None = None
        self._waiting: deque[socket.socket] = deque()
        self._wakeup, self.waiting = socket.socketpair()
        """`waiting` is readable while a connection is waiting; see `next_connection`."""
        self._stop, self._stopped = socket.socketpair()
        for end in (self._wakeup, self.waiting):
            end.setblocking(False)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Admit connections for the duration of the context, and then close all that are still waiting.

        Raises:
            MemoryError, RuntimeError: if no thread can be started.
        """
        thread = None
        try:
            thread = BackgroundThread(self._admit)
            yield
        finally:
            self._stop.send(b"!")
            if thread is not None:
                thread.join()
            while self._waiting:
                self._waiting.popleft().close()
            for end in (self._wakeup, self.waiting, self._stop, self._stopped):
                end.close()

    def next_connection(self) -> socket.socket | None:
        """Return the connection that has waited longest, or None if there is none.

        If the admission thread has failed, this method raises its error, so the failure does not go unnoticed.
        """
        self.waiting.recv(1)
        if self._defect is not None:
            raise self._defect
        return self._waiting.popleft() if self._waiting else None

    def _admit(self) -> None:
        try:
            with selectors.DefaultSelector() as selector:
                self._admit_all(selector)
        except BaseException as defect:  # noqa: BLE001 - raised by `next_connection`
            self._defect = defect
            self._wakeup.send(b"!")

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
            pause = self._admit_one(pause)

    def _admit_one(self, previous_pause: float) -> float:
        """Admit one connection; return the seconds to wait before the next one.

        Args:
            previous_pause: the previous wait, in seconds. It doubles with each refusal by the system, up to a limit.
        """
        try:
            connection, _ = self._listener.accept()
            with _close_on_failure(connection):
                self._check_peer(connection)
        except ConnectionError:  # the client has disconnected
            return 0.0
        except (OSError, MemoryError) as error:
            self._on_refusal(error)
            return min(_MAX_PAUSE, 2 * previous_pause or _FIRST_PAUSE)
        return 0.0

    def _check_peer(self, connection: socket.socket) -> None:
        user = peer_user_id(connection)
        if user == self._user and len(self._waiting) < _MAX_WAITING:
            self._waiting.append(connection)
            self._wakeup.send(b"!")
            return
        with connection:
            if user != self._user:
                connection.setblocking(False)
                self._turn_away(connection, user)


@contextmanager
def _close_on_failure(connection: socket.socket) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


def peer_user_id(connection: socket.socket) -> int:
    """Return the user id of the peer process, as recorded by the kernel when the connection was made."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(raw)[1])
