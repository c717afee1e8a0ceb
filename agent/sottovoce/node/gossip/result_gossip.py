"""Gossip of the members' signatures on opened sums, so that any device has enough of them to prove a result.

Two devices tell each other which signatures they have, and send those that the other lacks. A device does so with each
linked peer when it has opened a sum, and then with one peer per period until every member's signature has arrived. A
device without the sum adopts it from its peers once enough members have signed it. The messages contain only what every
member of the sum has computed itself.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable
from typing import Annotated

from msgspec import DecodeError, Meta, Struct, ValidationError, msgpack

from sottovoce.errors import MessageRefused
from sottovoce.learning.learners import PublishSum
from sottovoce.net.transports import DeliveryFailed, Peer
from sottovoce.node.gossip.messenger import Messenger
from sottovoce.node.gossip.result_book import MAX_RESULTS, ResultBook
from sottovoce.node.host import Host
from sottovoce.node.opened_sum import Confirmation, OpenedSum, ResultFile
from sottovoce.privacy.api import PrivacyStatement
from sottovoce.task import Task

_log = logging.getLogger(__name__)
RESULTS = "opened-sums/1"
"""Payload type of the messages in which devices exchange signatures on opened sums."""

_WAIT = "results"
_PERIOD_SECONDS, _LONGEST_PERIOD_SECONDS = 30.0, 3_600.0
_SECONDS_A_DAY = 86_400
_MAX_PART_BYTES = 160 * 2**10
"""Maximum size of the results in one message, in bytes; a device accepts messages of 256 KiB."""

_CONFIRMATION_BYTES = 1024  # a certificate, a signature and a node id

_Digest = Annotated[bytes, Meta(min_length=32, max_length=32)]


class _Held(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """A sum that the sender has, with one bit per member of the roster whose signature the sender has."""

    digest: _Digest
    signers: Annotated[bytes, Meta(max_length=128)]


class _Part(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """Signatures that the recipient lacks, with the sum itself if the recipient lacks that too."""

    digest: _Digest
    opened: OpenedSum | None
    confirmations: Annotated[tuple[Confirmation, ...], Meta(max_length=1024)]


class _Payload(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """A message: what its sender has, and what its recipient lacks. A request without `held` wants no answer."""

    held: Annotated[tuple[_Held, ...], Meta(max_length=MAX_RESULTS)]
    parts: Annotated[tuple[_Part, ...], Meta(max_length=MAX_RESULTS)]


class ResultGossip:
    """One device's side of the gossip about opened sums.

    Args:
        host: the agent's surroundings.
        task: the device's task.
        statement: the device's guarantee, which the signed results contain.
        book: the device's results.
        messenger: connection to the peers.
        clock: returns Unix time in seconds.
    """

    def __init__(
        self,
        *,
        host: Host,
        task: Task,
        statement: PrivacyStatement,
        book: ResultBook,
        messenger: Messenger,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.book = book
        self._host, self._task, self._statement = host, task, statement
        self._messenger, self._clock = messenger, clock
        self._wake_event = asyncio.Event()
        self._stopping = False

    async def publish(self, opened: PublishSum) -> None:
        """Sign and store a sum that this device has opened, and tell the peers."""
        document = OpenedSum(
            fleet=self._host.trust.identity.fleet,
            task=self._task.canonical.decode(),
            slot=opened.slot,
            round=opened.round.hex(),
            owners=opened.owners,
            survivors=opened.survivors,
            exponent=opened.exponent,
            total=tuple(opened.total.tolist()),
            share=opened.share,
            epsilon=self._statement.epsilon,
            delta=self._statement.delta,
        )
        day = int(self._clock() // _SECONDS_A_DAY)
        if await self._host.run_on_disk(lambda: self.book.add_own(document, day)):
            _log.info("sum-opened slot=%d members=%d of=%d", opened.slot, len(opened.survivors), len(opened.owners))
            self._wake_event.set()

    async def run(self) -> None:
        """Exchange signatures until stopped."""
        period = _PERIOD_SECONDS
        while not self._stopping:
            pause = period * random.uniform(0.5, 1.5)  # noqa: S311 - jitter, not a secret
            self._messenger.waits.begin(_WAIT, "the next exchange of signatures on results", pause)
            try:
                await asyncio.wait_for(self._wake_event.wait(), pause)
            except TimeoutError:
                peers = self._host.linked_peers() if self._wants_more() else []
                peers = random.sample(peers, min(1, len(peers)))
            else:
                peers = self._host.linked_peers()
            self._wake_event.clear()
            has_news = False
            for peer in peers:
                has_news |= await self._exchange_with(peer)
            # A member that is gone for good never signs: the pauses grow while nothing new arrives.
            period = _PERIOD_SECONDS if has_news else min(2 * period, _LONGEST_PERIOD_SECONDS)
        self._messenger.waits.end(_WAIT)
        await self._host.run_on_disk(self.book.close)

    def stop(self) -> None:
        """Make `run` return."""
        self._stopping = True
        self._wake_event.set()

    async def receive(self, sender: str, payload: bytes) -> bytes:
        """Store a peer's signatures; answer with this device's, and with what the peer lacks.

        Raises:
            MessageRefused: if the message is malformed, or a signature is not valid.
        """
        request = _decode(payload)
        await self._accept(request.parts)
        held = self._held() if request.held or not request.parts else ()
        raw = msgpack.encode(_Payload(held, self._parts_for(request.held) if held else ()))
        self._messenger.counters.wire_bytes += len(raw)
        return raw

    async def _exchange_with(self, peer: Peer) -> bool:
        """Exchange signatures with a peer, and return whether that brought any to either side."""
        parts: tuple[_Part, ...] = ()
        try:
            answer = _decode(await self._deliver(peer, _Payload(self._held(), ())))
            await self._accept(answer.parts)
            if parts := self._parts_for(answer.held):
                await self._deliver(peer, _Payload((), parts))
        except (DeliveryFailed, MessageRefused) as failure:
            _log.debug("results-not-exchanged %s", failure)
            return False
        return bool(parts or answer.parts)

    async def _deliver(self, peer: Peer, payload: _Payload) -> bytes:
        messenger = self._messenger
        raw = messenger.seal(peer.id, RESULTS, msgpack.encode(payload))
        messenger.counters.wire_bytes += len(raw)
        return await messenger.transport.deliver(peer, raw, messenger.timeout)

    def _wants_more(self) -> bool:
        """Return whether this device lacks the sum or a member's signature."""
        newest = self.book.results[-1:]
        return self.book.missing_confirmations(newest[0].opened.digest) if newest else self._host.has_model

    def _held(self) -> tuple[_Held, ...]:
        return tuple(_Held(document.opened.digest, _signer_bits(document)) for document in self.book.results)

    def _parts_for(self, held: Iterable[_Held]) -> tuple[_Part, ...]:
        """Return what a peer with these signatures lacks, up to the size limit of a message."""
        signers, parts, room = {each.digest: each.signers for each in held}, list[_Part](), _MAX_PART_BYTES
        for document in reversed(self.book.results):
            digest, known = document.opened.digest, signers.get(document.opened.digest)
            opened = document.opened if known is None else None
            room -= 0 if opened is None else len(opened.encoding)
            bits = int.from_bytes(known or b"", "little")
            owners = {owner for i, owner in enumerate(document.opened.owners) if not bits >> i & 1}
            lacking = [each for each in document.confirmations if each.owner in owners]
            chosen = random.sample(lacking, min(len(lacking), max(0, room) // _CONFIRMATION_BYTES))
            room -= len(chosen) * _CONFIRMATION_BYTES
            if chosen and room >= 0:
                parts.append(_Part(digest, opened, tuple(chosen)))
        return tuple(parts)

    async def _accept(self, parts: Iterable[_Part]) -> None:
        """Store the valid signatures on known sums, and unknown sums that enough members have signed.

        Raises:
            MessageRefused: if a signature is not valid.
        """
        if await self._host.run_on_disk(lambda: sum(map(self._add, parts))):  # a sum that this device had lacked
            self._wake_event.set()

    def _add(self, part: _Part) -> bool:
        """Add a peer's part, and return whether peers should be told."""
        if self.book.find(part.digest) is not None:
            self.book.add_confirmations(part.digest, part.confirmations)
            return False
        if part.opened is None:
            return False
        return self.book.add_confirmed(part.opened, part.confirmations)


def _signer_bits(document: ResultFile) -> bytes:
    """Return one bit per member of the roster, set if the document has the member's signature."""
    signers = {each.owner for each in document.confirmations}
    bits = sum(1 << i for i, owner in enumerate(document.opened.owners) if owner in signers)
    return bits.to_bytes((len(document.opened.owners) + 7) // 8, "little")


def _decode(raw: bytes) -> _Payload:
    """Decode a message; raise MessageRefused if it is malformed."""
    try:
        return msgpack.decode(raw, type=_Payload)
    except (DecodeError, ValidationError, ValueError, UnicodeError, RecursionError) as error:
        raise MessageRefused("malformed", f"malformed signatures on results: {error}") from error
