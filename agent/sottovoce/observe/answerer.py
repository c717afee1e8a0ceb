"""HTTP/1.0 server of a few monitoring pages: GET and HEAD, one request per connection, with short deadlines.

A request that is too long, too slow or malformed gets a short answer or none, and its connection is closed. Only the
method and the path of a request are used.
"""

import asyncio
import logging
import re
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from sottovoce.listening import cannot_listen
from sottovoce.observe.rate_limited_log import RateLimitedLog
from sottovoce.observe.request_server import RequestServer

_log = logging.getLogger(__name__)
_MAX_BYTES = 8192  # of a request
_SECONDS = 10.0  # for the request, for the page, and for the answer to be read
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
    """HTTP response.

    Attributes:
        status: HTTP status code.
        kind: its media type.
        body: its bytes.
    """

    status: int
    kind: str
    body: bytes

    def encoded(self, *, head_only: bool = False) -> bytes:
        """Return the page as it is sent."""
        head = (
            f"HTTP/1.0 {self.status} {_REASONS[self.status]}\r\n"
            f"Content-Type: {self.kind}\r\n"
            f"Content-Length: {len(self.body)}\r\n"
            "Cache-Control: no-store\r\n"
            "Connection: close\r\n\r\n"
        )
        return head.encode() + (b"" if head_only else self.body)


def text_page(status: int, words: str) -> Page:
    """Return a page of a few words."""
    return Page(status, "text/plain; charset=utf-8", f"{words}\n".encode())


class Answerer:
    """HTTP server of pages.

    Args:
        pages: functions that make the pages, by path.
    """

    def __init__(self, pages: Mapping[str, Callable[[], Awaitable[Page]]]) -> None:
        self.pages = pages
        self._server: RequestServer | None = None
        self._sparse_log = RateLimitedLog(_log)

    @property
    def connections(self) -> int:
        """Number of open connections."""
        return 0 if self._server is None else self._server.connections

    async def start(self, host: str, port: int) -> None:
        """Listen on this address.

        Raises:
            NetworkError: if the address cannot be used.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            listening = socket.create_server((host, port), family=family)
        except OSError as error:
            address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            raise cannot_listen("observe.metrics", address, error) from error
        self._server = RequestServer(
            f"{host}:{port}",
            complete=lambda request: _END in request,
            answer=self._answer,
            longest=_MAX_BYTES,
            seconds=_SECONDS,
        )
        self._server.start(listening)

    async def stop(self) -> None:
        """Stop listening, and close every connection."""
        if self._server is not None:
            await self._server.stop(grace=0.0)

    async def page(self, request: bytes) -> tuple[Page, bool]:
        """Return the answer to a request, and whether only its head is requested."""
        if (asked := _REQUEST.match(request)) is None:
            return text_page(400, "this is not a request of HTTP/1"), False
        method, path = asked[1], asked[2].partition(b"?")[0].decode()
        if path not in self.pages:
            return text_page(404, f"there are {', '.join(self.pages)}"), method == b"HEAD"
        if method not in (b"GET", b"HEAD"):
            return text_page(405, "GET or HEAD"), False
        try:
            async with asyncio.timeout(_SECONDS):
                return await self.pages[path](), method == b"HEAD"
        except TimeoutError:
            return text_page(503, f"this page was not made within {_SECONDS:g} s"), False
        except Exception as defect:  # noqa: BLE001 - a page that cannot be made must not end the device's work
            self._sparse_log.say(logging.ERROR, path, "page-failed path=%s report this defect: %r", path, defect)
            return text_page(500, "this page could not be made: the log says why"), False

    async def _answer(self, request: bytes | None) -> bytes:
        if request is None:
            return text_page(431, f"a request has {_MAX_BYTES} bytes at most").encoded()
        page, head_only = await self.page(request)
        return page.encoded(head_only=head_only)
