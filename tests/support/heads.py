"""Ledger heads made by tests, and ledger-head gossip inside this process."""

from dataclasses import dataclass, field
from pathlib import Path

from sottovoce.fleet import Identity
from sottovoce.net.transports import DeliveryFailed, Listener, Peer, Receive
from sottovoce.net.wire import SignedHead
from sottovoce.node.gossip.ledger_head_gossip import LedgerHeadGossip
from sottovoce.node.gossip.ledger_head_store import LedgerHeadStore
from sottovoce.node.gossip.messenger import Messenger
from sottovoce.node.gossip.witnesses import RollbackDetector
from sottovoce.node.host import Host
from sottovoce.node.waits import Waits
from sottovoce.ops import Counters
from sottovoce.privacy.api import Answer, CellAnswer, CellQuery, PrivacyStatement, Query, Refused
from sottovoce.privacy.vault import LedgerPosition, Spending, Witness


def mark(past: str) -> bytes:
    """Make the mark of a ledger with this past."""
    return past.encode().ljust(32, b".")[:32]


def make_head(
    identity: Identity, charges: int, past: str = "one", *, released: int | None = None, life: int = 1
) -> SignedHead:
    """Make a signed head of a ledger with this past."""
    counted = charges if released is None else released
    return SignedHead(
        identity.public_key, charges, counted, mark(f"{past}/{charges}/{counted}"), bytes([life]) * 16
    ).sign(identity)


@dataclass
class Past:
    """A ledger's history without the ledger; implements the part of VaultInterface that gossip needs.

    Attributes:
        charges: the number of charges so far, each with its release.
        name: the history's name; histories with different names have different releases.
        common: the number of initial releases that are the same in all histories.
        named: the witnesses that the ledger has appointed.
    """

    charges: int = 0
    name: str = "one"
    common: int = 0
    named: tuple[Witness, ...] = ()

    @property
    def statement(self) -> PrivacyStatement:
        raise NotImplementedError

    def spending(self) -> Spending:
        raise NotImplementedError

    def witnesses(self) -> tuple[Witness, ...]:
        return self.named

    def appoint(self, witnesses: tuple[Witness, ...]) -> None:
        self.named = witnesses

    async def take_part(self, query: CellQuery) -> CellAnswer | Refused:
        raise NotImplementedError

    async def ask(self, query: Query) -> Answer:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def tip(self) -> LedgerPosition:
        result = self.mark(self.charges, self.charges)
        assert result is not None
        return LedgerPosition(self.charges, self.charges, result)

    def mark(self, charges: int, released: int) -> bytes | None:
        if max(charges, released) > self.charges:
            return None
        return mark(f"{self.name if charges > self.common else 'one'}/{charges}/{released}")


@dataclass
class PeerNetwork:
    """A network of gossiping devices, by address; implements sottovoce.net.transports.Transport for one device."""

    devices: dict[str, LedgerHeadGossip] = field(default_factory=dict)
    own: str = ""

    @property
    def largest(self) -> int:
        return 2**22

    def reaches(self, address: str) -> bool:
        return bool(address)

    async def start(self, receive: Receive) -> None:
        raise NotImplementedError

    async def deliver(self, peer: Peer, message: bytes, timeout: float) -> bytes:  # noqa: ASYNC109
        if peer.address not in self.devices:
            raise DeliveryFailed("unreachable", "no device has this address")
        answer, _ = await self.devices[peer.address].receive(self.own, message)
        return answer

    def listener(self) -> Listener:
        raise NotImplementedError

    async def stop(self, grace: float) -> None:
        raise NotImplementedError


def head_gossip(
    village: dict[str, LedgerHeadGossip],
    host: Host,
    past: Past,
    book: Path,
    *,
    needed: int = 1,
    alone: bool = False,
    waits: Waits | None = None,
    contacts: bool = True,
) -> LedgerHeadGossip:
    """Make ledger-head gossip that finds its peers in `village`, by address."""
    messenger = Messenger(
        seal=lambda recipient, kind, payload: payload,
        transport=PeerNetwork(village, host.trust.identity.node_id),
        timeout=1.0,
        counters=Counters(),
        waits=waits or Waits(),
    )
    detector = RollbackDetector(needed, alone)
    return LedgerHeadGossip(
        host=host,
        vault=past,
        head_store=LedgerHeadStore(book),
        detector=detector,
        messenger=messenger,
        has_contacts=contacts,
        period=1.0,
    )


def peer_at(address: str, identity: Identity) -> Peer:
    """Return a peer at this address, to which heads are sent."""
    return Peer(identity.node_id, address, "")
