"""Unambiguous framing of fields to sign or to derive keys from: no byte can move from one field to the next."""

from collections.abc import Iterable


def framed(domain: bytes, fields: Iterable[bytes]) -> bytes:
    """Return the domain string, then each field after its length in eight bytes, big endian."""
    return domain + b"".join(len(field).to_bytes(8, "big") + field for field in fields)
