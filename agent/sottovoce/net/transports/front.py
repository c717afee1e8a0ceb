"""Front end for gRPC that limits the number and the lifetime of connections that do not lead to a call.

gRPC accepts every connection and keeps an idle one open for two minutes, so a stranger without a certificate could use
up a device's file descriptors and memory. Therefore gRPC listens on a local socket. This module forwards each
connection's bytes to that socket and inspects only the first byte. A connection counts as a stranger's until gRPC
reports a call from a fleet device on it. Strangers' connections have a deadline, and their number is limited. When the
limit is reached, the module closes the oldest connection from the address that has the most connections. An honest
device needs its connection only for a moment before the first call, so idle connections cannot keep it out, no matter
how many there are.
"""

import asyncio
import contextlib
import logging
import os
import resource
import secrets
import socket
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sottovoce.net.listening import Acceptor
from sottovoce.ops import RateLimitedLog

_log = logging.getLogger(__name__)
_MAX_CONNECTIONS = 128  # maximum number of connections from strangers, and also from fleet devices
_MAX_PER_DEVICE = 4  # maximum number of connections from one fleet device
_DESCRIPTORS_PER_CONNECTION = 3  # per connection: the caller's socket, the socket to gRPC, and gRPC's end of it
_RESERVED = 256  # descriptors reserved for the ledger, the state, and outgoing connections
_STRANGER_SECONDS = 10.0  # a TLS handshake takes half a second on an otherwise idle Raspberry Pi
_PAUSE_SECONDS = 0.003
"""Pause after a connection that displaces another. Without it, callers that reconnect at once saturate the processor:
under 5,000 half-open handshakes, peers delivered only 70 % of their shares (decision 28)."""
_HOLD_SECONDS = 1.0
"""How long nothing is read from a device that has used up its quota. Without it, eight members that flood a device cost
it a third of its cycles, because each refused call brings a window of 64 KiB along."""
_PROBE_SECONDS = 2.0
_TLS_HANDSHAKE = b"\x16"  # first byte of every TLS connection (RFC 8446, 5.1)
_CHUNK = 2**14
"""Bytes that are forwarded at a time, and half the size of the buffer to gRPC. gRPC sets aside twice as much as it has
read at once, in 64 KiB pieces, for each connection: with the kernel's usual buffers, half a megabyte."""
_RECEIVE_BUFFER = 2**16  # the kernel's buffer for a caller; it would otherwise grow to megabytes for each connection


@dataclass(slots=True, eq=False)
class _Connection:
    """An incoming connection.

    Attributes:
        address: the caller's address.
        task: task that forwards the connection's bytes.
        device: node id of the fleet device that makes calls on the connection; None while the caller is a stranger.
    """

    address: str
    task: "asyncio.Task[None]"
    device: str | None = None


async def _pump(source: socket.socket, sink: socket.socket, held_until: Callable[[], float] = lambda: 0.0) -> None:
    """Copy bytes from `source` to `sink` until `source` is closed, but nothing before `held_until()`, in loop time."""
    loop = asyncio.get_running_loop()
    while chunk := await loop.sock_recv(source, _CHUNK):
        if (pause := held_until() - loop.time()) > 0:
            await asyncio.sleep(pause)
        await loop.sock_sendall(sink, chunk)


@dataclass(slots=True)
class ConnectionGate:
    """The public listener in front of gRPC.

    Attributes:
        accepted: number of accepted connections.
        turned_away: number of connections that were closed without a call from a fleet device.
        trouble: reason why connections currently do not reach gRPC; empty if they do.
    """

    accepted: int = 0
    turned_away: int = 0
    trouble: str = ""
    _connections: dict[str, _Connection] = field(default_factory=dict)
    _held: dict[str, float] = field(default_factory=dict)
    _tasks: "set[asyncio.Task[None]]" = field(default_factory=set)
    _acceptors: list[Acceptor] = field(default_factory=list)
    _directory: "tempfile.TemporaryDirectory[str] | None" = None
    _socket_descriptor: int = -1
    _grpc_path: str = ""
    _probe: "asyncio.Task[None] | None" = None
    _sparse_log: RateLimitedLog = field(default_factory=lambda: RateLimitedLog(_log))

    def socket_path(self) -> str:
        """Return the path of the socket that gRPC listens on, in a directory that only the agent's user can enter.

        Raises:
            OSError: if the temporary directory cannot be created.
        """
        if self._directory is None:
            self._directory = tempfile.TemporaryDirectory(prefix="sottovoce-", ignore_cleanup_errors=True)
        return f"{self._directory.name}/grpc"

    def _keep_socket_reachable(self) -> None:
        """Open gRPC's socket file, so it stays reachable even if a temporary-file cleaner deletes its path."""
        self._socket_descriptor = os.open(self.socket_path(), os.O_PATH)
        path = f"/proc/self/fd/{self._socket_descriptor}"
        self._grpc_path = path if os.path.lexists(path) else self.socket_path()

    async def start(self, host: str, port: int) -> None:
        """Listen on an address; gRPC must already be listening on its socket.

        Raises:
            OSError: if listening on the address fails.
        """
        self._keep_socket_reachable()
        loop = asyncio.get_running_loop()
        addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        sockets: list[socket.socket] = []
        try:
            for family, _, _, _, address in dict.fromkeys(addresses):
                dual_stack = address[0] == "::" and socket.has_dualstack_ipv6()
                listener = socket.create_server(
                    address[:2], family=family, backlog=_MAX_CONNECTIONS, dualstack_ipv6=dual_stack
                )
                sockets.append(listener)
                listener.setsockopt(
                    socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER
                )  # inherited by its connections
        except OSError:
            for listener in sockets:
                listener.close()
            raise
        self._acceptors = [Acceptor(listener, self._open, self._note_refused) for listener in sockets]

    def admit(self, peer: str, device: str) -> None:
        """Record that a fleet device made a call on a connection, and close the connections that exceed the limits.

        Args:
            peer: name of the connection's peer, as gRPC reports it.
            device: the device's node id.
        """
        connection = self._connections.get(peer.rpartition(":")[2])
        if connection is None or connection.device is not None:
            return
        connection.device = device
        from_fleet = {name: link for name, link in self._connections.items() if link.device is not None}
        from_device = [name for name, link in from_fleet.items() if link.device == device]
        for surplus in {*from_device[:-_MAX_PER_DEVICE], *list(from_fleet)[: -_connection_limit()]}:
            self._close(surplus)

    def hold(self, device: str) -> None:
        """Read nothing from a device's connections for a moment, because it has used up its quota."""
        now = asyncio.get_running_loop().time()
        self._held = {held: until for held, until in self._held.items() if until > now}
        self._held[device] = now + _HOLD_SECONDS

    @property
    def held(self) -> tuple[str, ...]:
        """The devices from which nothing is read at the moment, sorted."""
        now = asyncio.get_running_loop().time()
        return tuple(sorted(device for device, until in self._held.items() if until > now))

    async def stop(self, grace: float) -> None:
        """Stop accepting connections; allow calls in progress `grace` seconds to finish."""
        for acceptor in self._acceptors:
            acceptor.stop()
        self._acceptors.clear()
        for name in [name for name, connection in self._connections.items() if connection.device is None]:
            self._close(name)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace)
        for name in list(self._connections):
            self._close(name)
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._probe is not None:
            self._probe.cancel()
            await asyncio.wait({self._probe})
        if self._socket_descriptor >= 0:
            os.close(self._socket_descriptor)
            self._socket_descriptor = -1
        if self._directory is not None:
            self._directory.cleanup()

    def _open(self, caller: socket.socket, address: Any) -> float:
        """Accept a stranger's connection and set its deadline.

        Returns:
            Seconds to pause before accepting the next connection, to save processor time: 0 unless another connection
            had to be closed.
        """
        loop, name, full = asyncio.get_running_loop(), f"sottovoce-{secrets.token_hex(8)}", self._make_room()
        task = loop.create_task(self._forward(name, caller))
        connection = self._connections[name] = _Connection(str(address[0]), task)
        deadline = loop.call_later(_STRANGER_SECONDS, self._expire, name)
        self._tasks.add(task)
        self.accepted += 1

        def clean_up(task: "asyncio.Task[None]") -> None:
            caller.close()
            deadline.cancel()
            self._connections.pop(name, None)
            self._tasks.discard(task)
            self.turned_away += connection.device is None

        task.add_done_callback(clean_up)
        return _PAUSE_SECONDS if full else 0.0

    def _note_refused(self, error: OSError | MemoryError) -> None:
        self._sparse_log.log(
            logging.WARNING,
            type(error).__name__,
            "connections-refused at=the port for peers will retry: %s",
            str(error) or "no memory",
        )

    def _make_room(self) -> bool:
        """Make room for one more stranger's connection, and return whether another one had to be closed."""
        strangers = {
            name: connection.address for name, connection in self._connections.items() if connection.device is None
        }
        if len(strangers) < _connection_limit():
            return False
        counts = Counter(strangers.values())
        largest_count = max(counts.values())
        self._close(next(name for name, address in strangers.items() if counts[address] == largest_count))
        return True

    def _device(self, name: str) -> str:
        """Return the device that makes calls on a connection; empty for a stranger."""
        connection = self._connections.get(name)
        return "" if connection is None or connection.device is None else connection.device

    def _expire(self, name: str) -> None:
        connection = self._connections.get(name)
        if connection is not None and connection.device is None:
            self._close(name)

    def _close(self, name: str) -> None:
        self._connections.pop(name).task.cancel()

    async def _forward(self, name: str, caller: socket.socket) -> None:
        """Forward bytes in both directions between the caller and gRPC, if the first byte starts a TLS handshake.

        Args:
            name: name of the local socket that connects to gRPC.
            caller: the caller's socket.
        """
        loop = asyncio.get_running_loop()
        caller.setblocking(False)
        with contextlib.suppress(OSError, MemoryError):
            caller.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            first_bytes = await loop.sock_recv(caller, _CHUNK)
            if not first_bytes.startswith(_TLS_HANDSHAKE):
                return
            with await self._connect_to_grpc(name) as link:
                await loop.sock_sendall(link, first_bytes)
                incoming = _pump(caller, link, lambda: self._held.get(self._device(name), 0.0))
                pumps = [loop.create_task(incoming), loop.create_task(_pump(link, caller))]
                try:
                    await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for pump in pumps:
                        pump.cancel()
                    await asyncio.gather(*pumps, return_exceptions=True)

    async def _connect_to_grpc(self, name: str) -> socket.socket:
        """Return a connection to gRPC from a local socket with this name."""
        link = None
        try:
            link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            link.setblocking(False)
            link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _CHUNK)
            link.bind(f"\0{name}")
            await asyncio.get_running_loop().sock_connect(link, self._grpc_path)
        except BaseException as error:
            if link is not None:
                link.close()
            if isinstance(error, OSError | MemoryError):
                self._report_cut_off(error)
            raise
        self.trouble = ""
        return link

    def _report_cut_off(self, error: OSError | MemoryError) -> None:
        """Report that connections do not reach gRPC, in the log and the health check, and start to probe gRPC."""
        reason = str(error) or "no memory"
        self.trouble = f"connections do not reach gRPC ({reason}): restart the agent if this persists"
        self._sparse_log.log(logging.ERROR, "cut-off", "peers-cut-off %s", self.trouble)
        if self._probe is None or self._probe.done():
            self._probe = asyncio.get_running_loop().create_task(self._probe_until_reachable())

    async def _probe_until_reachable(self) -> None:
        while self.trouble:
            await asyncio.sleep(_PROBE_SECONDS)
            with contextlib.suppress(OSError, MemoryError):
                (await self._connect_to_grpc(f"sottovoce-{secrets.token_hex(8)}")).close()


def _connection_limit() -> int:
    """Return the connection limit that this process's descriptor limit allows after subtracting the reserve."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(8, min(_MAX_CONNECTIONS, (soft - _RESERVED) // (2 * _DESCRIPTORS_PER_CONNECTION)))
