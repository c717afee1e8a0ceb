"""Unambiguous framing of fields that are signed or used to derive keys: no byte can be moved from field to field."""

from collections.abc import Iterable


def frame_fields(domain: bytes, fields: Iterable[bytes]) -> bytes:
    """Return the domain string followed by each field, prefixed with its length as eight big-endian bytes."""
    return domain + b"".join(len(field).to_bytes(8, "big") + field for field in fields)
