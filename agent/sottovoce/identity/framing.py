"""The exact bytes that are signed, or that a key is derived for: no byte can move from one field to its neighbour."""

from collections.abc import Iterable


def framed(domain: bytes, fields: Iterable[bytes]) -> bytes:
    """The domain string, then each field after its length in eight bytes, big endian."""
    return domain + b"".join(len(field).to_bytes(8, "big") + field for field in fields)
