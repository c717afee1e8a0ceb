"""Links to peers, and the table that opens and closes them. A link resends each share until it is confirmed.

The pauses between attempts grow. The link also sends this device's ledger head to the peer: at startup, with shares,
and once a minute.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from sottovoce.errors import InternalError, MessageRefused
from sottovoce.net.transports import DeliveryFailed, Peer, Transport
from sottovoce.net.transports.transport import START_SECONDS
from sottovoce.net.wire import Receipt, SignedHead, append_heads, decode_receipt
from sottovoce.node.host import Host
from sottovoce.node.links import Outgoing
from sottovoce.node.waits import Waits
from sottovoce.ops import Counters, RateLimitedLog

_log = logging.getLogger(__name__)
_HEAD_CHECK_SECONDS = 30.0
_HEADS_BYTES = 1024
_UNSENT_SECONDS = 5.0
"""Longest pause after a failure that is not the peer's fault, such as an unreachable broker, in seconds."""


class HeadSender(Protocol):
    """The part of sottovoce.node.gossip.ledger_head_gossip.LedgerHeadGossip that a link uses."""

    def is_due(self, peer: str) -> bool:
        """Return whether this peer lacks the current ledger head, or last received a head long ago."""
        ...

    async def send_head(self, peer: Peer) -> None:
        """Send a peer the head; raise DeliveryFailed or MessageRefused if the delivery is not confirmed."""
        ...

    async def make_request(self, peer: str) -> tuple[SignedHead, bytes]:
        """Return the current head, and the encoded request that sends it together with a share."""
        ...

    async def handle_answer(self, peer: str, head: SignedHead, raw: bytes) -> None:
        """Handle the peer's answer to that request; raise MessageRefused if the answer is malformed."""
        ...


class Link:
    """A link that delivers outgoing shares to one peer, one at a time.

    Args:
        peer: the recipient.
        transport: transport that delivers the bytes.
        head_gossip: sends this device's ledger head.
        on_confirmed: called with the recipient's reply, or None, once the recipient has made a share durable.
        on_refused: called with the reason once the recipient has permanently refused a share.
        on_failed_attempt: called with the peer's id after each failed attempt that the peer may have caused.
        counters: counters for attempts and failures.
        waits: record of the waits in progress.
        timeout: timeout for one attempt, in seconds.
        backoff: length of the first pause before jitter, in seconds.
        backoff_max: length of the longest pause, in seconds.
    """

    def __init__(
        self,
        *,
        peer: Peer,
        transport: Transport,
        head_gossip: HeadSender,
        on_confirmed: Callable[[Outgoing, tuple[str, bytes] | None], Awaitable[None]],
        on_refused: Callable[[Outgoing, str], Awaitable[None]],
        on_failed_attempt: Callable[[str], None],
        counters: Counters,
        waits: Waits,
        timeout: float,
        backoff: float,
        backoff_max: float,
    ) -> None:
        self.peer = peer
        self.failures = 0
        self.last_failure = ""
        self._peer_failures = 0
        self._transport = transport
        self._head_gossip = head_gossip
        self._on_confirmed = on_confirmed
        self._on_refused = on_refused
        self._on_failed_attempt = on_failed_attempt
        self._counters = counters
        self._waits = waits
        self._timeout = timeout
        self._backoff = backoff
        self._backoff_max = backoff_max
        self._outgoing: asyncio.Queue[Outgoing] = asyncio.Queue(maxsize=1)
        self._is_delivering = False
        self._opened_at = float("-inf")
        self._stopping = asyncio.Event()
        self._wake_event = asyncio.Event()
        self._sparse_log = RateLimitedLog(_log)

    def offer(self, outgoing: Outgoing) -> None:
        """Accept a share for delivery; the core offers the next share only after this one has been confirmed."""
        self._outgoing.put_nowait(outgoing)

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing left to deliver."""
        return self._outgoing.empty() and not self._is_delivering

    def retry_now(self) -> None:
        """Retry without further delay after a failure, because the peer has sent a message."""
        self._wake_event.set()

    def mark_reachable(self) -> None:
        """End the pause and reset the backoff, because the peer is reachable again."""
        self._peer_failures = 0
        self._wake_event.set()

    def stop(self) -> None:
        """Make `run` return after the attempt in progress."""
        self._stopping.set()
        self._wake_event.set()

    async def run(self) -> None:
        """Send the ledger head to the peer, and deliver shares, until stopped."""
        stopping = asyncio.ensure_future(self._stopping.wait())
        self._opened_at = asyncio.get_running_loop().time()
        try:
            await self._deliver(None)
            while not self._stopping.is_set():
                next_share = asyncio.ensure_future(self._outgoing.get())
                await asyncio.wait(
                    {next_share, stopping}, timeout=_HEAD_CHECK_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
                if next_share.done():
                    self._is_delivering = True
                    await self._deliver(next_share.result())
                    self._is_delivering = False
                    continue
                next_share.cancel()
                await self._deliver(None)
        finally:
            stopping.cancel()

    async def _deliver(self, outgoing: Outgoing | None) -> None:
        """Deliver a share, with the ledger head if it is due; without a share, deliver only the head."""
        failures, send_count, receipt = 0, 0, Receipt()
        while not self._stopping.is_set():
            name = f"peer:{self.peer.id}"
            try:
                if self._head_gossip.is_due(self.peer.id) and (failures > 0 or not self._has_room_for_heads(outgoing)):
                    self._waits.begin(name, f"{self.peer.address} to reply to this device's ledger head", self._timeout)
                    await self._head_gossip.send_head(self.peer)
                if outgoing is not None:
                    self._waits.begin(name, f"{self.peer.address} to confirm share {outgoing.sequence}", self._timeout)
                    send_count += 1
                    receipt = await self._send_share(outgoing, is_retry=send_count > 1)
            except (DeliveryFailed, MessageRefused) as failure:
                failures += 1
                pause = self._note_failure(failure, failures)
                self._waits.begin(name, f"the next attempt to reach {self.peer.address}: {failure}", pause)
                await self._sleep(pause)
                continue
            finally:
                self._waits.end(name)
            self.failures = self._peer_failures = 0
            self.last_failure = ""
            if outgoing is not None and receipt.refused:
                await self._on_refused(outgoing, receipt.refused)
            elif outgoing is not None:
                await self._on_confirmed(outgoing, receipt.reply)
            return

    def _has_room_for_heads(self, outgoing: Outgoing | None) -> bool:
        """Return whether a share leaves room for ledger heads; a message that is sent in parts must never change."""
        if outgoing is None or not isinstance(outgoing.parcel, bytes):
            return False
        return len(outgoing.parcel) + _HEADS_BYTES <= self._transport.largest

    async def _send_share(self, outgoing: Outgoing, *, is_retry: bool) -> Receipt:
        if not isinstance(outgoing.parcel, bytes):
            raise InternalError("only sealed envelopes may be sent over the network: this is a bug; please report it")
        raw, head = outgoing.parcel, None
        if self._head_gossip.is_due(self.peer.id) and self._has_room_for_heads(outgoing):
            head, request = await self._head_gossip.make_request(self.peer.id)
            raw = append_heads(raw, request)
        self._counters.messages += not is_retry
        self._counters.retries += is_retry
        self._counters.wire_bytes += len(raw)
        receipt = decode_receipt(await self._transport.deliver(self.peer, raw, self._timeout))
        if head is not None and receipt.heads is not None:
            await self._head_gossip.handle_answer(self.peer.id, head, receipt.heads)
        return receipt

    def _note_failure(self, failure: DeliveryFailed | MessageRefused, attempt: int) -> float:
        """Count a failure, log it at most once a minute, and return a random pause in seconds; its bound doubles."""
        cause, was_sent = (failure.cause, failure.left) if isinstance(failure, DeliveryFailed) else ("other", True)
        explanation = str(failure)
        self.failures = attempt
        self.last_failure = explanation
        self._counters.failures[cause] += 1
        if cause != "unreachable" or asyncio.get_running_loop().time() >= self._opened_at + START_SECONDS:
            self._sparse_log.log(logging.WARNING, cause, "delivery-failed cause=%s %s", cause, explanation)
        if was_sent:
            self._peer_failures += 1
            self._on_failed_attempt(self.peer.id)
            maximum, failures = self._backoff_max, self._peer_failures
        else:
            maximum, failures = min(self._backoff_max, _UNSENT_SECONDS), attempt
        longest = min(maximum, self._backoff * 2 ** min(failures - 1, 16))
        return random.uniform(longest / 10, longest)  # noqa: S311 - jitter, not a secret

    async def _sleep(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake_event.wait(), seconds)
        if not self._stopping.is_set():
            self._wake_event.clear()


class LinkTable:
    """A device's links, one per peer.

    Args:
        host: the agent's surroundings, whose `links` become this table's.
        make_link: returns a new link to a peer, not yet started.
        on_forget: called with the id of a node that no longer has a link.

    Attributes:
        links: links by node id.
    """

    def __init__(
        self,
        host: Host,
        *,
        make_link: Callable[[Peer], Link],
        on_forget: Callable[[str], None],
    ) -> None:
        self._host = host
        host.links = self.links = dict[str, Link]()
        self._make_link = make_link
        self._on_forget = on_forget

    def open(self, peer: Peer) -> Link:
        """Create a link to a peer, and start it."""
        link = self.links[peer.id] = self._make_link(peer)
        self._host.spawn(link.run())
        return link

    def replace_peers(self, peers: Iterable[Peer]) -> None:
        """Replace the peers; a link to a removed peer stays open while it has an undelivered message."""
        peers_by_id = {peer.id: peer for peer in peers}
        for node, peer in peers_by_id.items():
            if node in self.links:
                self.links[node].peer = peer
                self.links[node].retry_now()
            else:
                self.open(peer)
        for node in [node for node, link in self.links.items() if node not in peers_by_id and link.is_idle]:
            self.forget(node)

    def wake_link(self, node: str) -> None:
        """Make a failing link retry immediately, because its peer has sent a message."""
        link = self.links.get(node)
        if link is not None and link.failures:
            link.retry_now()

    def offer(self, outgoing: Outgoing) -> None:
        """Deliver a message over the link to its recipient, opening a link first if a known recipient has none."""
        recipient = outgoing.recipient
        if self._host.trust.is_revoked(recipient):
            return
        link = self.links.get(recipient)
        if link is None and (peer := self._host.find_known(recipient)) is not None:
            link = self.open(peer)
        if link is None:
            _log.warning(
                "share-stranded peer=%s the peer's address is no longer known; its share will be sent once the "
                "peer is rediscovered or listed under [transport]",
                recipient,
            )
            return
        link.offer(outgoing)

    def forget(self, recipient: str) -> None:
        """Remove the link and stop it after the attempt in progress; if the peer returns, a new link is opened."""
        if (link := self.links.pop(recipient, None)) is not None:
            link.stop()
            self._on_forget(recipient)
