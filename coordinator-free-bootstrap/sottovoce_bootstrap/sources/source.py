"""The interface of contact sources."""

from collections.abc import Sequence
from typing import Protocol

from sottovoce_bootstrap.contact import Contact

MAX_CONTACTS = 256
"""Maximum number of contacts from one query, even if the source reports more."""


class Source(Protocol):
    """A source of contacts.

    Attributes:
        name: `dns`, `mdns` or `mqtt`, which identifies the source in logs, waits and the status.
    """

    name: str

    async def look(self) -> Sequence[Contact]:
        """Return at most 256 devices that the source can currently find, which may include this one.

        A query takes some seconds. The caller limits its duration, may cancel it, and repeats it later.

        Raises:
            NetworkError: if the query fails; the message states the reason in one sentence.
        """
        ...

    async def close(self) -> None:
        """Stop searching, and withdraw this device's announcement, if the source has made one."""
        ...
