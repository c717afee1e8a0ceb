"""HTTP/1.0 server for a few monitoring pages, with GET and HEAD, one request per connection, and short deadlines.

A request that is too long, too slow or malformed gets a short response or none, and its connection is closed. Only the
method and the path of a request are used.
"""

import asyncio
import logging
import re
import socket
import time
from collections.abc import Awaitable, Callable, Mapping

from sottovoce.net.listening import make_listening_error
from sottovoce.net.request_server import RequestServer
from sottovoce.ops.logs import RateLimitedLog
from sottovoce.ops.page import Page, text_page

_log = logging.getLogger(__name__)
_MAX_BYTES = 8192  # maximum request size
_TIMEOUT_SECONDS = 10.0  # time limit for receiving the request, for making the page, and for sending the response
_FRESH_SECONDS, _STALE_SECONDS = 1.0, 3.0
_SEND_BUFFER = 2**17  # a page has at most some 40 kB
_END = b"\r\n\r\n"
_REQUEST = re.compile(rb"([A-Z]{1,16}) (/[!-~]{0,256}) HTTP/1\.[0-9]\r\n")


class _CachedPage:
    """A page that is made at most once a second, however often it is requested.

    While a page is being made again, requests get the last one, if it is not older than a few seconds.

    Args:
        make: function that makes the page.
    """

    def __init__(self, make: Callable[[], Awaitable[Page]]) -> None:
        self._make = make
        self._page: Page | None = None
        self._made_at = 0.0
        self._making: asyncio.Task[Page] | None = None

    def ready(self) -> Page | None:
        """Return the page if it is recent; start to make it again if it is not quite."""
        age = time.monotonic() - self._made_at
        if self._page is None or age > _STALE_SECONDS:
            return None
        if age > _FRESH_SECONDS:
            self._start()
        return self._page

    async def get(self) -> Page:
        """Return the page; raise what making it raises."""
        page = self.ready()
        return await asyncio.shield(self._start()) if page is None else page

    def _start(self) -> "asyncio.Task[Page]":
        if self._making is None or self._making.done():
            self._making = asyncio.get_running_loop().create_task(self._remake())
            self._making.add_done_callback(lambda task: task.cancelled() or task.exception())
        return self._making

    async def _remake(self) -> Page:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            self._page = await self._make()
        self._made_at = time.monotonic()
        return self._page


class PageServer:
    """HTTP server for a fixed set of pages.

    Args:
        pages: functions that make the pages, keyed by path; each is called at most once a second.
    """

    def __init__(self, pages: Mapping[str, Callable[[], Awaitable[Page]]]) -> None:
        self.pages = {path: _CachedPage(make) for path, make in pages.items()}
        self._server: RequestServer | None = None
        self._sparse_log = RateLimitedLog(_log)

    @property
    def connections(self) -> int:
        """Number of open connections."""
        return 0 if self._server is None else self._server.connections

    async def start(self, host: str, port: int) -> None:
        """Start listening on an address.

        Raises:
            NetworkError: if the address cannot be used.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            listener = socket.create_server((host, port), family=family)
            # Both are inherited by the connections. A page fits into the buffer, so it is sent at once, and the kernel
            # drops what a client has not read in time.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(_TIMEOUT_SECONDS * 1000))
        except OSError as error:
            address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            raise make_listening_error("observe.metrics", address, error) from error
        self._server = RequestServer(
            f"{host}:{port}",
            is_complete=lambda request: _END in request,
            answer=self._answer,
            max_bytes=_MAX_BYTES,
            seconds=_TIMEOUT_SECONDS,
            ready_answer=self._ready_answer,
        )
        self._server.start(listener)

    async def stop(self) -> None:
        """Stop listening and close every connection."""
        if self._server is not None:
            await self._server.stop(grace=0.0)

    async def page(self, request: bytes) -> tuple[Page, bool]:
        """Return the response to a request, and whether the client requested only its headers."""
        match = _REQUEST.match(request)
        if match is None:
            return text_page(400, "not a valid HTTP/1 request"), False
        method, path = match[1], match[2].partition(b"?")[0].decode()
        if path not in self.pages:
            return text_page(404, f"available pages: {', '.join(self.pages)}"), method == b"HEAD"
        if method not in (b"GET", b"HEAD"):
            return text_page(405, "use GET or HEAD"), False
        try:
            return await self.pages[path].get(), method == b"HEAD"
        except TimeoutError:
            return text_page(503, f"this page could not be generated within {_TIMEOUT_SECONDS:g} s"), False
        except Exception as defect:  # noqa: BLE001 - a failing page must not stop the device
            self._sparse_log.log(
                logging.ERROR, path, "page-failed path=%s this is a bug; please report it: %r", path, defect
            )
            return text_page(500, "this page could not be generated; see the log"), False

    def _ready_answer(self, request: bytes) -> bytes | None:
        match = _REQUEST.match(request)
        if match is None or match[1] not in (b"GET", b"HEAD"):
            return None
        cached = self.pages.get(match[2].partition(b"?")[0].decode())
        page = None if cached is None else cached.ready()
        return None if page is None else page.to_bytes(head_only=match[1] == b"HEAD")

    async def _answer(self, request: bytes | None) -> bytes:
        if request is None:
            return text_page(431, f"a request may contain at most {_MAX_BYTES} bytes").to_bytes()
        page, head_only = await self.page(request)
        return page.to_bytes(head_only=head_only)
