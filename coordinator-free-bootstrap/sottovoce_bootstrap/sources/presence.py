"""Contacts from a broker, where devices leave word that they are there, for others to read (retained messages)."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from sottovoce_bootstrap.contact import Contact

LISTEN_SECONDS = 2.0
"""How long a broker has to name those who are there."""


@runtime_checkable
class Presence(Protocol):
    """A transport through a place where devices are seen."""

    async def present(self, seconds: float) -> Sequence[str]:
        """Node ids of some devices that say they are there; it takes `seconds`.

        Raises:
            NetworkError: if no one can be seen.
        """
        ...


class PresenceSource:
    """Implements Source.

    Args:
        presence: who is there.
        realm: public name of the broker.
    """

    name = "mqtt"

    def __init__(self, presence: Presence, realm: str) -> None:
        self._presence = presence
        self._endpoint = f"mqtt:{realm}"

    async def look(self) -> Sequence[Contact]:
        """See Source.look."""
        return [Contact(node, (self._endpoint,)) for node in await self._presence.present(LISTEN_SECONDS)]

    async def close(self) -> None:
        """See Source.close; the transport says goodbye itself."""
