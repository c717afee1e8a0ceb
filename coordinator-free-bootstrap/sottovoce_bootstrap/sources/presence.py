"""Contacts from a broker to which devices announce their presence by retained messages."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from sottovoce_bootstrap.contact import Contact

LISTEN_SECONDS = 2.0
"""Seconds that a broker has to name the present devices."""


@runtime_checkable
class Presence(Protocol):
    """Transport on which the presence of devices can be seen."""

    async def present(self, seconds: float) -> Sequence[str]:
        """Return node ids of some devices that announce their presence; takes `seconds`.

        Raises:
            NetworkError: if no device can be seen.
        """
        ...


class PresenceSource:
    """Source that finds devices by their announcements on a broker.

    Args:
        presence: transport on which the announcements are visible.
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
        """Do nothing; the transport withdraws its announcement itself. See Source.close."""
