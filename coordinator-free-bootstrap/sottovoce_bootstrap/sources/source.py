"""Interface of a source of contacts."""

from collections.abc import Sequence
from typing import Protocol

from sottovoce_bootstrap.contact import Contact

MAX_CONTACTS = 256
"""Largest number of contacts from one query, however many the source names."""


class Source(Protocol):
    """Source of contacts.

    Attributes:
        name: one word, `dns`, `mdns` or `mqtt`, which identifies the source in logs, waits and the status.
    """

    name: str

    async def look(self) -> Sequence[Contact]:
        """Return the devices that can be seen from here now, possibly including this one; at most 256.

        A query takes seconds, bounded by the caller, which may cancel it, and repeats it later.

        Raises:
            NetworkError: if no device can be seen; the message gives the reason in one sentence.
        """
        ...

    async def close(self) -> None:
        """Stop searching, and withdraw this device's announcement from the source."""
        ...
