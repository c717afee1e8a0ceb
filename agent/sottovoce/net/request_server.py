"""Server for short requests: each connection carries one request and one answer, and is then closed.

The number of connections is limited. At the limit, the server closes the oldest connection without a complete
request, from the origin (user or address) with the most such connections. Therefore, a client that sends its request
immediately gets an answer, however many connections are silent. If the answers on more than half of all connections are
not being read, the server closes the oldest of these connections instead.

Some answers are ready. They are sent at once, without a task, and cost so little that a local user who sends requests
as fast as possible delays no other client by more than a moment.
"""

import asyncio
import logging
import socket
import struct
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from sottovoce.net.listening import Acceptor
from sottovoce.ops.logs import RateLimitedLog

_log = logging.getLogger(__name__)
MAX_CONNECTIONS = 32
"""Maximum number of simultaneous connections."""

_BACKLOG = 1024  # connections that the kernel queues until they are accepted
_BATCH = 64
_PAUSE_SECONDS = 0.0005
"""Pause for each connection that displaces another or is answered at once. It limits them to 2,000 a second, and the
processor time to a tenth of a core; the longest queue of the kernel is then served within half a second."""
_CHUNK = 2**16
_GOODBYE_SECONDS = 1.0
_CREDENTIALS = struct.Struct("iII")  # struct ucred: process, user, group


@dataclass(slots=True, eq=False)
class _Connection:
    """A client's connection.

    Attributes:
        socket: socket to the client.
        origin: address of the client, or its user if it is on this machine.
        request: part of the request received so far.
        deadline: timer that closes the connection unless the complete request arrives in time.
        answer_task: task that makes and sends the answer; None before the request is complete.
        is_sending: whether the answer is ready and is being sent.
    """

    socket: socket.socket
    origin: str
    request: bytearray = field(default_factory=bytearray)
    deadline: asyncio.TimerHandle | None = None
    answer_task: "asyncio.Task[None] | None" = None
    is_sending: bool = False


class RequestServer:
    """Server for requests on one listening socket.

    Args:
        address: listening address, for the log.
        is_complete: function that returns whether its argument is a complete request.
        answer: function that makes the answer; its argument is None for a request that is too long.
        max_bytes: maximum request length, in bytes.
        seconds: time limit for receiving the request, and also for sending the answer.
        ready_answer: returns the answer to a request if it is ready, and None otherwise.
    """

    def __init__(
        self,
        address: str,
        *,
        is_complete: Callable[[bytearray], bool],
        answer: Callable[[bytes | None], Awaitable[bytes]],
        max_bytes: int,
        seconds: float,
        ready_answer: Callable[[bytes], bytes | None] = lambda _: None,
    ) -> None:
        self._address = address
        self._is_complete = is_complete
        self._answer = answer
        self._max_bytes = max_bytes
        self._seconds = seconds
        self._ready_answer = ready_answer
        self._connections: dict[_Connection, None] = {}
        self._answer_tasks: set[asyncio.Task[None]] = set()
        self._displaced_count = 0
        self._acceptor: Acceptor | None = None
        self._sparse_log = RateLimitedLog(_log)

    @property
    def connections(self) -> int:
        """Number of open connections."""
        return len(self._connections)

    def start(self, listener: socket.socket) -> None:
        """Serve on a bound socket, which this server closes."""
        listener.listen(_BACKLOG)
        self._acceptor = Acceptor(listener, self._accept_connection, self._log_refusal, batch=_BATCH)

    async def stop(self, grace: float = _GOODBYE_SECONDS) -> None:
        """Stop listening and close all connections; answers in progress have `grace` seconds to complete."""
        if self._acceptor is not None:
            self._acceptor.stop()
            self._acceptor = None
        for connection in [connection for connection in self._connections if connection.answer_task is None]:
            self._close(connection)
        if self._answer_tasks:
            await asyncio.wait(self._answer_tasks, timeout=grace)
        for connection in list(self._connections):
            self._close(connection)
        if self._answer_tasks:
            await asyncio.wait(self._answer_tasks)

    def _accept_connection(self, client: socket.socket, address: Any) -> float:
        """Register a new connection and return how long to wait before accepting the next one."""
        client.setblocking(False)
        if self._answer_at_once(client):
            client.close()
            return _PAUSE_SECONDS
        full = len(self._connections) >= MAX_CONNECTIONS
        if full and not self._make_room():
            client.close()
            return _PAUSE_SECONDS
        connection = _Connection(client, _origin(client, address))
        loop = asyncio.get_running_loop()
        connection.deadline = loop.call_later(self._seconds, self._close, connection)
        self._connections[connection] = None
        try:
            loop.add_reader(client.fileno(), self._read_request, connection)
        except BaseException:
            self._close(connection)
            raise
        return _PAUSE_SECONDS if full else 0.0

    def _answer_at_once(self, client: socket.socket) -> bool:
        """If a client's request has arrived and its answer is ready, send it; return whether the client is served."""
        try:
            request = client.recv(self._max_bytes, socket.MSG_PEEK)
            if not self._is_complete(bytearray(request)) or (answer := self._ready_answer(request)) is None:
                return False
            client.recv(len(request))
            client.send(answer)  # the connection is new, so its buffer takes the answer, or what fits into it
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            pass  # the client has disconnected
        return True

    def _log_refusal(self, error: OSError | MemoryError) -> None:
        self._sparse_log.log(
            logging.WARNING,
            type(error).__name__,
            "connections-refused at=%s will retry: %s",
            self._address,
            str(error) or "no memory",
        )

    def _make_room(self) -> bool:
        """Close one connection to make room for a new one; return whether a connection could be closed."""
        sending = [connection for connection in self._connections if connection.is_sending]
        silent = [connection for connection in self._connections if connection.answer_task is None]
        if not (sending or silent):
            return False
        candidates = sending if len(sending) > MAX_CONNECTIONS // 2 or not silent else silent
        sizes = Counter(connection.origin for connection in candidates)
        oldest = next(connection for connection in candidates if sizes[connection.origin] == max(sizes.values()))
        if oldest in silent and self._has_spoken(oldest):
            return oldest not in self._connections or self._make_room()
        self._displaced_count += 1
        self._sparse_log.log(
            logging.WARNING,
            "crowded",
            "connections-crowded at=%s more than %d connections: closing the oldest silent one, displaced=%d",
            self._address,
            MAX_CONNECTIONS,
            self._displaced_count,
        )
        self._close(oldest)
        return True

    def _has_spoken(self, connection: _Connection) -> bool:
        """Read what a silent connection has sent, before the event loop does; return whether it is silent no longer."""
        if not connection.request and self._answer_at_once(connection.socket):
            self._close(connection)
            return True
        self._read_request(connection)
        return connection not in self._connections or connection.answer_task is not None

    def _read_request(self, connection: _Connection) -> None:
        """Read more of a request, and start the answer once the request is complete."""
        try:
            chunk = connection.socket.recv(_CHUNK)
            connection.request += chunk
            is_too_long = len(connection.request) > self._max_bytes
            if not chunk:
                self._close(connection)
            elif is_too_long or self._is_complete(connection.request):
                self._start_answer(connection, None if is_too_long else bytes(connection.request))
        except (BlockingIOError, InterruptedError):
            return
        except (OSError, MemoryError):
            self._close(connection)

    def _start_answer(self, connection: _Connection, request: bytes | None) -> None:
        """Cancel the connection's deadline, and start the task that answers the request and closes the connection."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(connection.socket.fileno())
        if connection.deadline is not None:
            connection.deadline.cancel()
        connection.answer_task = loop.create_task(self._serve(connection, request))
        self._answer_tasks.add(connection.answer_task)

        def forget_connection(task: "asyncio.Task[None]") -> None:
            self._answer_tasks.discard(task)
            self._connections.pop(connection, None)
            connection.socket.close()

        connection.answer_task.add_done_callback(forget_connection)

    async def _serve(self, connection: _Connection, request: bytes | None) -> None:
        loop = asyncio.get_running_loop()
        try:
            answer = await self._answer(request)
            connection.is_sending = True
            async with asyncio.timeout(self._seconds):
                await loop.sock_sendall(connection.socket, answer)
                if request is None:  # drain unread bytes, which would otherwise make the client lose the answer
                    connection.socket.shutdown(socket.SHUT_WR)
                    while await loop.sock_recv(connection.socket, _CHUNK):
                        pass
        except (TimeoutError, OSError):
            pass  # the client has disconnected, or does not read
        except Exception as defect:  # noqa: BLE001 - one request must not stop the device, and the error is logged
            self._sparse_log.log(
                logging.ERROR,
                type(defect).__name__,
                "request-failed at=%s the request was not answered: %r",
                self._address,
                defect,
            )

    def _close(self, connection: _Connection) -> None:
        """Close a connection, or cancel its answering task, which then closes the connection."""
        self._connections.pop(connection, None)
        if connection.answer_task is not None:
            connection.answer_task.cancel()
            return
        asyncio.get_running_loop().remove_reader(connection.socket.fileno())
        if connection.deadline is not None:
            connection.deadline.cancel()
        connection.socket.close()


def _origin(client: socket.socket, address: Any) -> str:
    """Return the address of a client, or its user id for a client on a Unix socket."""
    if client.family != socket.AF_UNIX:
        return str(address[0])
    return str(_CREDENTIALS.unpack(client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))[1])
