"""A few pages over HTTP/1.0, for monitoring: GET and HEAD, one request a connection, and little patience.

Whoever sends what is too long, too slow or no request is answered shortly, if at all, and cut off; so is whoever comes
when there are enough. Nothing of a request is used but its method and its path.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from sottovoce.errors import NetworkError
from sottovoce.observe.rate_limited_log import RateLimitedLog

_log = logging.getLogger(__name__)
_MOST_CONNECTIONS = 16
_MOST_BYTES = 8192  # of a request
_SECONDS = 10.0  # from the first byte of a connection to its end
_END = b"\r\n\r\n"
_REQUEST = re.compile(rb"([A-Z]{1,16}) (/[!-~]{0,256}) HTTP/1\.[0-9]\r\n")
_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


@dataclass(frozen=True, slots=True)
class Page:
    """An answer.

    Attributes:
        status: of HTTP.
        kind: its media type.
        body: its bytes.
    """

    status: int
    kind: str
    body: bytes

    def encoded(self, *, head_only: bool = False) -> bytes:
        """As it is sent."""
        head = (
            f"HTTP/1.0 {self.status} {_REASONS[self.status]}\r\n"
            f"Content-Type: {self.kind}\r\n"
            f"Content-Length: {len(self.body)}\r\n"
            "Cache-Control: no-store\r\n"
            "Connection: close\r\n\r\n"
        )
        return head.encode() + (b"" if head_only else self.body)


def plain(status: int, words: str) -> Page:
    """A page of a few words."""
    return Page(status, "text/plain; charset=utf-8", f"{words}\n".encode())


class Answerer:
    """Listens, and answers with pages.

    Args:
        pages: what makes each of them, by path.
    """

    def __init__(self, pages: Mapping[str, Callable[[], Awaitable[Page]]]) -> None:
        self.pages = pages
        self.connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None
        self._seldom = RateLimitedLog(_log)

    async def start(self, host: str, port: int) -> None:
        """Listen there.

        Raises:
            NetworkError: the address cannot be used.
        """
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(lambda: _Connection(self), host, port)
        except OSError as error:
            raise NetworkError(
                f"cannot listen on {host}, port {port} ({error.strerror or error}): change observe.metrics or stop "
                "what uses it"
            ) from error

    async def stop(self) -> None:
        """Listen no more, and cut off whoever is there."""
        if self._server is not None:
            self._server.close()
            for connection in tuple(self.connections):
                connection.cut()
            await asyncio.sleep(0)  # for the connections to end

    async def page(self, request: bytes) -> tuple[Page, bool]:
        """The answer to a request, and whether only its head is wanted."""
        if (asked := _REQUEST.match(request)) is None:
            return plain(400, "this is no request of HTTP/1"), False
        method, path = asked[1], asked[2].partition(b"?")[0].decode()
        if path not in self.pages:
            return plain(404, f"there are {', '.join(self.pages)}"), method == b"HEAD"
        if method not in (b"GET", b"HEAD"):
            return plain(405, "GET or HEAD"), False
        try:
            return await self.pages[path](), method == b"HEAD"
        except Exception as defect:  # noqa: BLE001 - a page that cannot be made must not end the device's work
            self._seldom.say(logging.ERROR, path, "page-failed path=%s report this defect: %r", path, defect)
            return plain(500, "this page could not be made: the log says why"), False


class _Connection(asyncio.Protocol):
    """One connection, from its first byte to its end."""

    def __init__(self, answerer: Answerer) -> None:
        self._answerer = answerer
        self._request = b""
        self._answering: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport
        self._deadline: asyncio.TimerHandle

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - it is one of TCP
        self._transport = transport
        self._deadline = asyncio.get_running_loop().call_later(_SECONDS, self.cut)
        if len(self._answerer.connections) >= _MOST_CONNECTIONS:
            transport.abort()
            return
        self._answerer.connections.add(self)

    def data_received(self, data: bytes) -> None:
        self._request += data
        if _END in self._request or len(self._request) > _MOST_BYTES:
            self._transport.pause_reading()
            self._answering = asyncio.get_running_loop().create_task(self._answer())

    async def _answer(self) -> None:
        if len(self._request) > _MOST_BYTES:
            page, head_only = plain(431, f"a request has {_MOST_BYTES} bytes at most"), False
        else:
            page, head_only = await self._answerer.page(self._request)
        self._transport.write(page.encoded(head_only=head_only))
        self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        self._answerer.connections.discard(self)
        if self._answering is not None:
            self._answering.cancel()

    def cut(self) -> None:
        """End it now."""
        self._transport.abort()
