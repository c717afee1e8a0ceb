"""Gossip protocol for signed documents: two devices compare versions, and the newer document wins."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from sottovoce.agent.ledger_head_gossip import Voice
from sottovoce.errors import MessageRefused
from sottovoce.transport import DeliveryFailed, Peer
from sottovoce.wire.version_offer import VersionOffer

Document = TypeVar("Document")
_MAX_REMEMBERED = 256  # number of peers


class DocumentGossip(Generic[Document]):
    """One device's side of the gossip about a document.

    Args:
        voice: connection to the peers.
        kind: payload type.
        encode: encodes an offer as a payload.
        decode: decodes a payload; raises MessageRefused if the payload is malformed.
        held: returns the version and the document that this device has.
        take: stores a peer's document if it is newer; raises MessageRefused if the document is not valid.
    """

    def __init__(
        self,
        voice: Voice,
        kind: str,
        encode: Callable[[VersionOffer[Document]], bytes],
        decode: Callable[[bytes], VersionOffer[Document]],
        held: Callable[[], VersionOffer[Document]],
        take: Callable[[str, Document], Awaitable[None]],
    ) -> None:
        self._voice, self._kind = voice, kind
        self._encode, self._decode = encode, decode
        self._held, self._take = held, take
        self._known: OrderedDict[str, int] = OrderedDict()

    def known_version(self, peer: str) -> int:
        """Return the newest version that a peer is known to have, or 0 if none is known."""
        return self._known.get(peer, 0)

    async def tell(self, peer: Peer) -> Exception | None:
        """Send this device's version to a peer, and then the document if it is newer; return the failure, if any.

        The document is sent only once, even if the peer answers without accepting it.
        """
        for given in (False, True):
            held = self._held()
            try:
                raw = self._encode(held if given else VersionOffer(held.version, None))
                answer = self._decode(await self._deliver(peer, raw))
                await self._take_document(peer.id, answer)
            except (DeliveryFailed, MessageRefused) as failure:
                self._known.pop(peer.id, None)
                return failure
            self._note(peer.id, max(answer.version, held.version) if given else answer.version)
            if answer.version >= held.version:
                return None
        return None

    async def answer(self, sender: str, offer: VersionOffer[Document]) -> bytes:
        """Process a peer's offer, and return an answer with this device's version, and the document if it is newer.

        Raises:
            MessageRefused: if the peer's document is not valid.
        """
        await self._take_document(sender, offer)
        held = self._held()
        self._note(sender, max(offer.version, held.version))
        raw = self._encode(held if offer.version < held.version else VersionOffer(held.version, None))
        self._voice.counters.wire_bytes += len(raw)
        return raw

    async def _deliver(self, peer: Peer, payload: bytes) -> bytes:
        voice = self._voice
        raw = voice.seal(peer.id, self._kind, payload)
        voice.counters.wire_bytes += len(raw)
        return await voice.transport.deliver(peer, raw, voice.timeout)

    async def _take_document(self, peer: str, offer: VersionOffer[Document]) -> None:
        if offer.document is not None:
            await self._take(peer, offer.document)

    def _note(self, peer: str, version: int) -> None:
        self._known[peer] = max(version, self._known.pop(peer, 0))
        if len(self._known) > _MAX_REMEMBERED:
            self._known.popitem(last=False)
