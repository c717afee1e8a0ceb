"""Interface of a source of contacts."""

from collections.abc import Sequence
from typing import Protocol

from sottovoce_bootstrap.contact import Contact

MAX_CONTACTS = 256
"""Contacts that one look gives at most, however much is said."""


class Source(Protocol):
    """Somewhere to look.

    Attributes:
        name: one word: `dns`, `mdns`, `mqtt`; it names the source in logs, waits and the status.
    """

    name: str

    async def look(self) -> Sequence[Contact]:
        """Everybody who can be seen from here now, this device perhaps included; at most 256.

        It takes seconds, bounded by the caller, who may cancel it, and asks again later.

        Raises:
            NetworkError: if no one can be seen, and why, in one sentence.
        """
        ...

    async def close(self) -> None:
        """Stop looking, and being seen by others who look there."""
        ...
