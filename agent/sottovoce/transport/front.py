"""What stands between strangers and gRPC: so many connections and no more, and none that leads to nothing.

gRPC takes every connection that comes, and keeps one that says nothing for two minutes: a stranger without a
certificate could use up a device's descriptors and memory. So gRPC listens on a socket of this device's own, and this
passes bytes on, without looking into them. A connection is a stranger's until gRPC says that a call came in by it, from
a device of the fleet. Strangers' connections have a deadline and a bound; beyond it the oldest goes, of the address
that has most of them: who comes in good faith needs a moment, and is not kept out by any number that wait.
"""

import asyncio
import contextlib
import resource
import secrets
import socket
import tempfile
from collections import Counter
from dataclasses import dataclass, field

_MOST = 128  # strangers, and as many whom gRPC knows
_MOST_OF_ONE = 4  # connections of one device of the fleet
_DESCRIPTORS_APIECE = 3  # from outside, to gRPC, and gRPC's
_RESERVED = 256  # descriptors for ledger, state, and connections to others
_STRANGER_SECONDS = 10.0  # a handshake takes a Raspberry Pi half a second when it has nothing else to do
_LINGER_SECONDS = 1.0  # for the last words to whoever hangs up
_TLS_HANDSHAKE = b"\x16"  # what every connection of TLS begins with (RFC 8446, 5.1)
_CHUNK = 2**16


@dataclass(slots=True, eq=False)
class _Connection:
    """One from outside.

    Attributes:
        address: where it comes from.
        task: that passes its bytes on.
        device: who calls by it; None while that is a stranger.
    """

    address: str
    task: "asyncio.Task[None]"
    device: str | None = None


@dataclass(slots=True)
class Front:
    """A listener for all the world.

    Attributes:
        accepted: connections that came.
        turned_away: those of them that are over and led to no call.
    """

    accepted: int = 0
    turned_away: int = 0
    _connections: dict[str, _Connection] = field(default_factory=dict)
    _tasks: "set[asyncio.Task[None]]" = field(default_factory=set)
    _server: asyncio.Server | None = None
    _directory: "tempfile.TemporaryDirectory[str] | None" = None

    def inside(self) -> str:
        """Path of the socket that gRPC is to listen on, where nobody but this device's user can reach it.

        Raises:
            OSError: there is no room for temporary files.
        """
        if self._directory is None:
            self._directory = tempfile.TemporaryDirectory(prefix="sottovoce-", ignore_cleanup_errors=True)
        return f"{self._directory.name}/grpc"

    async def start(self, host: str, port: int) -> None:
        """Listen.

        Raises:
            OSError: the address cannot be used.
        """
        if host == "::" and socket.has_dualstack_ipv6():
            everywhere = socket.create_server((host, port), family=socket.AF_INET6, dualstack_ipv6=True)
            self._server = await asyncio.start_server(self._accepted, sock=everywhere, limit=_CHUNK)
        else:
            self._server = await asyncio.start_server(self._accepted, host, port, limit=_CHUNK)

    def admit(self, peer: str, device: str) -> None:
        """A call of a device of the fleet came in by the connection that gRPC names so."""
        connection = self._connections.get(peer.rpartition(":")[2])
        if connection is None or connection.device is not None:
            return
        connection.device = device
        known = {name: one for name, one in self._connections.items() if one.device is not None}
        own = [name for name, one in known.items() if one.device == device]
        for oldest in {*own[:-_MOST_OF_ONE], *list(known)[: -_bound()]}:
            self._dismiss(oldest)

    async def stop(self, grace: float) -> None:
        """Take nobody else; calls in progress have `grace` seconds."""
        if self._server is not None:
            self._server.close()
        for name in [name for name, one in self._connections.items() if one.device is None]:
            self._dismiss(name)
        if tasks := set(self._tasks):
            for late in (await asyncio.wait(tasks, timeout=grace))[1]:
                late.cancel()
            await asyncio.wait(tasks)
        if self._directory is not None:
            self._directory.cleanup()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass a connection's bytes on until either side ends it, or it is told to go."""
        if (task := asyncio.current_task()) is None:
            return
        self.accepted += 1
        self._tasks.add(task)
        self._make_room()
        name = f"sottovoce-{secrets.token_hex(8)}"
        address = str((writer.get_extra_info("peername") or ("?",))[0])
        connection = self._connections[name] = _Connection(address, task)
        deadline = asyncio.get_running_loop().call_later(_STRANGER_SECONDS, self._expire, name)
        try:
            await _passed_on(self.inside(), name, reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # who hangs up, or is told to go, has gone
        finally:
            deadline.cancel()
            self._connections.pop(name, None)
            self._tasks.discard(task)
            self.turned_away += connection.device is None
            writer.transport.abort()

    def _make_room(self) -> None:
        """For one more stranger."""
        strangers = {name: one.address for name, one in self._connections.items() if one.device is None}
        if len(strangers) >= _bound():
            crowd = Counter(strangers.values())
            most = max(crowd.values())
            self._dismiss(next(name for name, address in strangers.items() if crowd[address] == most))

    def _expire(self, name: str) -> None:
        connection = self._connections.get(name)
        if connection is not None and connection.device is None:
            self._dismiss(name)

    def _dismiss(self, name: str) -> None:
        self._connections.pop(name).task.cancel()


async def _passed_on(inside: str, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Both ways, by a socket of this name, from the first byte on: before that, gRPC is not troubled."""
    begin = await reader.read(_CHUNK)
    if not begin.startswith(_TLS_HANDSHAKE):
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.setblocking(False)
        link.bind(f"\0{name}")
        await asyncio.get_running_loop().sock_connect(link, inside)
        from_grpc, to_grpc = await asyncio.open_unix_connection(sock=link, limit=_CHUNK)
        ways = [asyncio.ensure_future(_pump(from_grpc, writer)), asyncio.ensure_future(_pump(reader, to_grpc, begin))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            writer.close()
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_LINGER_SECONDS):
                    await writer.wait_closed()
        finally:
            to_grpc.transport.abort()
            for way in ways:
                way.cancel()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, chunk: bytes = b"") -> None:
    """Until one of them hangs up."""
    with contextlib.suppress(OSError):
        while True:
            writer.write(chunk)
            await writer.drain()
            if not (chunk := await reader.read(_CHUNK)):
                return


def _bound() -> int:
    """What the descriptors of this process allow beside the reserve."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(8, min(_MOST, (soft - _RESERVED) // (2 * _DESCRIPTORS_APIECE)))
