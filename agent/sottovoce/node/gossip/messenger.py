"""Messages of the gossip protocols to peers, and the exchange of signed documents.

Two devices that exchange a document compare versions, and the newer document wins.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from sottovoce.errors import MessageRefused
from sottovoce.net.transports import DeliveryFailed, Peer, Transport
from sottovoce.net.wire.version_offer import VersionOffer
from sottovoce.node.waits import Waits
from sottovoce.ops import Counters

Document = TypeVar("Document")
_MAX_REMEMBERED = 256  # peers whose versions are remembered


@dataclass(frozen=True, slots=True)
class Messenger:
    """Everything that a gossip protocol needs to send messages to other devices.

    Attributes:
        seal: returns the envelope for (recipient, payload type, payload).
        transport: transport for the envelopes.
        timeout: timeout for one request, in seconds.
        counters: counters for bytes sent and received.
        waits: record of the waits in progress.
    """

    seal: Callable[[str, str, bytes], bytes]
    transport: Transport
    timeout: float
    counters: Counters
    waits: Waits


class DocumentGossip(Generic[Document]):
    """One device's side of the gossip about a document.

    Args:
        messenger: connection to the peers.
        kind: payload type.
        encode: encodes an offer as a payload.
        decode: decodes a payload; raises MessageRefused if the payload is malformed.
        current_offer: returns the version and the document that this device has.
        accept: stores a peer's document if it is newer; raises MessageRefused if the document is not valid.
    """

    def __init__(
        self,
        messenger: Messenger,
        kind: str,
        encode: Callable[[VersionOffer[Document]], bytes],
        decode: Callable[[bytes], VersionOffer[Document]],
        current_offer: Callable[[], VersionOffer[Document]],
        accept: Callable[[str, Document], Awaitable[None]],
    ) -> None:
        self._messenger, self._kind = messenger, kind
        self._encode, self._decode = encode, decode
        self._current_offer, self._accept = current_offer, accept
        self._known_versions: OrderedDict[str, int] = OrderedDict()

    def known_version(self, peer: str) -> int:
        """Return the newest version that a peer is known to have, or 0 if none is known."""
        return self._known_versions.get(peer, 0)

    async def exchange_with(self, peer: Peer) -> Exception | None:
        """Send a peer this device's version, then the document if the peer has an older one; return any failure.

        The document is sent only once, even if the peer answers without accepting it.
        """
        for with_document in (False, True):
            offer = self._current_offer()
            try:
                raw = self._encode(offer if with_document else VersionOffer(offer.version, None))
                answer = self._decode(await self._deliver(peer, raw))
                await self._accept_document(peer.id, answer)
            except (DeliveryFailed, MessageRefused) as failure:
                self._known_versions.pop(peer.id, None)
                return failure
            self._note_version(peer.id, max(answer.version, offer.version) if with_document else answer.version)
            if answer.version >= offer.version:
                return None
        return None

    async def answer(self, sender: str, offer: VersionOffer[Document]) -> bytes:
        """Process a peer's offer; answer with this device's version, and with its document if the peer's is older.

        Raises:
            MessageRefused: if the peer's document is not valid.
        """
        await self._accept_document(sender, offer)
        own_offer = self._current_offer()
        self._note_version(sender, max(offer.version, own_offer.version))
        raw = self._encode(own_offer if offer.version < own_offer.version else VersionOffer(own_offer.version, None))
        self._messenger.counters.wire_bytes += len(raw)
        return raw

    async def _deliver(self, peer: Peer, payload: bytes) -> bytes:
        messenger = self._messenger
        raw = messenger.seal(peer.id, self._kind, payload)
        messenger.counters.wire_bytes += len(raw)
        return await messenger.transport.deliver(peer, raw, messenger.timeout)

    async def _accept_document(self, peer: str, offer: VersionOffer[Document]) -> None:
        if offer.document is not None:
            await self._accept(peer, offer.document)

    def _note_version(self, peer: str, version: int) -> None:
        self._known_versions[peer] = max(version, self._known_versions.pop(peer, 0))
        if len(self._known_versions) > _MAX_REMEMBERED:
            self._known_versions.popitem(last=False)
