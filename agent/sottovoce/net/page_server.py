"""HTTP/1.0 server for a few monitoring pages, with GET and HEAD, one request per connection, and short deadlines.

A request that is too long, too slow or malformed gets a short response or none, and its connection is closed. Only the
method and the path of a request are used.
"""

import asyncio
import logging
import re
import socket
from collections.abc import Awaitable, Callable, Mapping

from sottovoce.net.listening import make_listening_error
from sottovoce.net.request_server import RequestServer
from sottovoce.ops.logs import RateLimitedLog
from sottovoce.ops.page import Page, text_page

_log = logging.getLogger(__name__)
_MAX_BYTES = 8192  # maximum request size
_TIMEOUT_SECONDS = 10.0  # time limit for receiving the request, for making the page, and for sending the response
_END = b"\r\n\r\n"
_REQUEST = re.compile(rb"([A-Z]{1,16}) (/[!-~]{0,256}) HTTP/1\.[0-9]\r\n")


class PageServer:
    """HTTP server for a fixed set of pages.

    Args:
        pages: functions that make the pages, keyed by path.
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
        """Start listening on an address.

        Raises:
            NetworkError: if the address cannot be used.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            listener = socket.create_server((host, port), family=family)
        except OSError as error:
            address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            raise make_listening_error("observe.metrics", address, error) from error
        self._server = RequestServer(
            f"{host}:{port}",
            is_complete=lambda request: _END in request,
            answer=self._answer,
            max_bytes=_MAX_BYTES,
            seconds=_TIMEOUT_SECONDS,
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
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                return await self.pages[path](), method == b"HEAD"
        except TimeoutError:
            return text_page(503, f"this page could not be generated within {_TIMEOUT_SECONDS:g} s"), False
        except Exception as defect:  # noqa: BLE001 - a failing page must not stop the device
            self._sparse_log.log(
                logging.ERROR, path, "page-failed path=%s this is a bug; please report it: %r", path, defect
            )
            return text_page(500, "this page could not be generated; see the log"), False

    async def _answer(self, request: bytes | None) -> bytes:
        if request is None:
            return text_page(431, f"a request may contain at most {_MAX_BYTES} bytes").to_bytes()
        page, head_only = await self.page(request)
        return page.to_bytes(head_only=head_only)
