"""Pages of the monitoring endpoint."""

from dataclasses import dataclass

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
    """An HTTP response.

    Attributes:
        status: HTTP status code.
        kind: media type.
        body: content of the response.
    """

    status: int
    kind: str
    body: bytes

    def to_bytes(self, *, head_only: bool = False) -> bytes:
        """Return the response as bytes, with its headers and, unless `head_only`, its body."""
        head = (
            f"HTTP/1.0 {self.status} {_REASONS[self.status]}\r\n"
            f"Content-Type: {self.kind}\r\n"
            f"Content-Length: {len(self.body)}\r\n"
            "Cache-Control: no-store\r\n"
            "Connection: close\r\n\r\n"
        )
        return head.encode() + (b"" if head_only else self.body)


def text_page(status: int, text: str) -> Page:
    """Return a plain-text page with a short message."""
    return Page(status, "text/plain; charset=utf-8", f"{text}\n".encode())
