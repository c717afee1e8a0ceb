"""Contacts from a broker on which devices announce their presence with retained messages."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from sottovoce_bootstrap.contact import Contact

LISTEN_SECONDS = 2.0
"""Time in seconds that a broker has to report the present devices."""


@runtime_checkable
class Presence(Protocol):
    """A transport that can report which devices are present."""

    async def discover(self, seconds: float) -> Sequence[str]:
        """Listen for `seconds`, and return the node ids of some devices that announce their presence.

        Raises:
            NetworkError: if the transport cannot find out which devices are present.
        """
        ...


class PresenceSource:
    """A source that finds devices through their announcements on a broker.

    Args:
        presence: the transport that receives the announcements.
        realm: the broker's public name.
    """

    name = "mqtt"

    def __init__(self, presence: Presence, realm: str) -> None:
        self._presence = presence
        self._endpoint = f"mqtt:{realm}"

    async def look(self) -> Sequence[Contact]:
        """Return the devices that announce their presence on the broker; see Source.look."""
        return [Contact(node, (self._endpoint,)) for node in await self._presence.discover(LISTEN_SECONDS)]

    async def close(self) -> None:
        """Do nothing, because the transport withdraws its own announcement; see Source.close."""
