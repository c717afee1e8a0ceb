"""Peer sampling as a state machine: no I/O, and no clock or randomness of its own.

NewsCast (Jelasity, Voulgaris, Guerraoui, Kermarrec and van Steen, "Gossip-based Peer Sampling", TOCS 25(3), 2007): once
a period a device exchanges entries with one peer of its view, and both keep the freshest ones. Descriptors are signed,
ages are relative, and old contacts are tried now and then, so that a partitioned fleet reunites.

Times are seconds of one monotonic clock. Nothing here blocks; everything is bounded.
"""

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from sottovoce.errors import InternalError, MessageRefused

from sottovoce_bootstrap.contact import Contact
from sottovoce_bootstrap.contacts import Contacts
from sottovoce_bootstrap.effects import DuplicateIdentity, Effect, Remember, Request
from sottovoce_bootstrap.exchange import MAX_ENTRIES, Entry, Exchange
from sottovoce_bootstrap.failures import ENOUGH, LONGEST_SECONDS, Failures
from sottovoce_bootstrap.record import MAX_NUMBER, PeerRecord
from sottovoce_bootstrap.rhythm import Rhythm
from sottovoce_bootstrap.settings import Settings
from sottovoce_bootstrap.view import View

REDRAWS = 2
"""Number of other peers tried in a period without an answer; a fleet thus recovers fast from losing half of itself."""

OLD_CONTACT_EVERY = 10
_SEEDS_AT_ONCE = 3
_JITTER = 0.1


class Issue(Protocol):
    """Signer of this device's records, such as sottovoce_bootstrap.record.Author.issue."""

    def __call__(self, incarnation: int, sequence: int, *, leaving: bool = False) -> PeerRecord:
        """Return the record of this version."""
        ...


def _reaches_everything(_: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class _Pending:
    deadline: float
    redraws: int


class Membership:
    """Membership of one device in the overlay.

    Args:
        node_id: node id of this device.
        settings: settings of the fleet.
        incarnation: result of BootCounter.begin.
        issue: signer of this device's records.
        verify: raises MessageRefused for a record that does not belong to this fleet; Verifier.verify.
        seeds: peers from the configuration and the invitation; tried first until their records have arrived.
        book: contacts of the address book.
        rng: source of all randomness.
        now: seconds.
        reaches: returns whether a transport of this device leads to an endpoint. A device to which no transport leads
            stays known and is forwarded to others, but this device sends it nothing.

    Attributes:
        due: time of the next call of `tick`. It may change with every call of any method.
        traffic: numbers of requests `sent`, `answered`, `failed` and `received`.
        refused: number of refused records that other devices forwarded, by reason.
    """

    def __init__(
        self,
        *,
        node_id: str,
        settings: Settings,
        incarnation: int,
        issue: Issue,
        verify: Callable[[PeerRecord], None],
        seeds: Sequence[Contact],
        book: Sequence[Contact],
        rng: random.Random,
        now: float,
        reaches: Callable[[str], bool] = _reaches_everything,
    ) -> None:
        self.due = now
        self.traffic: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self._id = node_id
        self._settings = settings
        self._issue = issue
        self._verify = verify
        self._dice = rng
        self._reaches = reaches
        self._contacts = Contacts(seeds, book, node_id, rng)
        self._rhythm = Rhythm(settings.period, now)
        self._view = View(node_id, settings, verify, rng, self.refused)
        self._failures = Failures(settings.backoff, rng)
        self._warm: list[str] = []
        self._pending: dict[str, _Pending] = {}
        self._expelled: frozenset[str] = frozenset()
        self._ticks = 0
        self._conflict_at = float("-inf")
        self._record = issue(incarnation, 1)
        self._issued = now

    @property
    def record(self) -> PeerRecord:
        """Newest record of this device."""
        return self._record

    @property
    def view(self) -> tuple[PeerRecord, ...]:
        """Return the view, the freshest record first."""
        return tuple(record for peer in self._view.ids if (record := self._view.get(peer)) is not None)

    def known(self, now: float) -> tuple[tuple[PeerRecord, float], ...]:
        """Return each recently seen device's newest record, in view or not, and its age in seconds; at most 1,024."""
        return tuple((sighting.record, max(0.0, now - sighting.born)) for sighting in self._view.known())

    @property
    def period(self) -> float:
        """Seconds between two exchanges that this device begins now; see sottovoce_bootstrap.rhythm."""
        return self._rhythm.period

    def learn(self, source: str, contacts: Iterable[Contact], now: float) -> None:
        """Take contacts from a source, which are tried without being trusted.

        Args:
            source: name of the source, whose earlier contacts are forgotten.
            contacts: any number of contacts, of which 32 are kept.
            now: seconds.
        """
        self._contacts.learn(source, contacts, self._view.ids)
        self._hurry(now)

    def tick(self, now: float) -> list[Effect]:
        """Begin this period's exchange; call it at `due`."""
        if self._record.leaving:
            return []
        self._ticks += 1
        self._rhythm.begin(now)
        self._renew(now)
        effects: list[Effect] = []
        for peer in [peer for peer, pending in self._pending.items() if pending.deadline <= now]:
            effects += self.on_failure(peer, now)
        seeds = [seed.node_id for seed in self._contacts.unheard if self._is_free(seed.node_id, now)]
        for seed in self._dice.sample(seeds, min(len(seeds), _SEEDS_AT_ONCE)):
            effects.append(self._request(seed, REDRAWS, now))
        candidates = [peer for peer in self._contacts.candidates if self._is_free(peer, now)]
        for peer in self._dice.sample(candidates, min(len(candidates), 1 if self._view.ids else _SEEDS_AT_ONCE)):
            effects.append(self._request(peer, 0, now))
        old = self._ticks % OLD_CONTACT_EVERY == 0
        self._rewarm(now)
        if old:
            self._rotate(now)
        effects += self._draw(REDRAWS, now, old=old)
        self.due = now + self.period * self._dice.uniform(1 - _JITTER, 1 + _JITTER)
        self._hurry(now)
        return effects

    def on_request(self, sender: str, exchange: Exchange, now: float) -> tuple[Exchange, list[Effect]]:
        """Answer a peer's exchange.

        Args:
            sender: authenticated node id of the sender.
            exchange: exchange of the sender.
            now: seconds.

        Raises:
            MessageRefused: for `rate`; for `sender`, if the first entry is not the sender's own; or for the reason for
                which the sender's record is refused. The view is unchanged.
        """
        self._view.admit(sender, exchange, now)
        self.traffic["received"] += 1
        self._rhythm.receive()
        self._failures.forgive(sender, now)
        reply = self._exchange(sender, exchange.sender, now)
        effects = self._take(sender, exchange, now)
        return reply, effects

    def on_reply(self, peer: str, exchange: Exchange, now: float) -> list[Effect]:
        """Process the reply to a request.

        Raises:
            MessageRefused: for `unsolicited`, for `sender`, or for the reason for which the peer's record is refused.
                The view is unchanged, and a pending request stays pending: report it by on_failure.
        """
        if peer not in self._pending:
            raise MessageRefused("unsolicited", f"{peer} replied, but no exchange with it is pending")
        self._view.check(peer, exchange)
        del self._pending[peer]
        self.traffic["answered"] += 1
        self.on_success(peer)
        effects = self._take(peer, exchange, now)
        contact = self.find(peer)
        if contact is not None:
            self._contacts.note_answer(contact)
            effects.append(Remember(contact))
        return effects

    def on_failure(self, peer: str, now: float, *, blamed: bool = True) -> list[Effect]:
        """Note that a peer did not answer an exchange.

        Args:
            peer: node id of the peer.
            now: seconds.
            blamed: whether the peer may be the reason. If not, this device is cut off: no peer is tried or forgotten.
        """
        pending = self._pending.pop(peer, None)
        self.traffic["failed"] += pending is not None
        effects: list[Effect] = []
        if not blamed:
            return effects
        self.on_missed(peer, now)
        if pending is not None and pending.redraws and not self._record.leaving:
            effects += self._draw(pending.redraws - 1, now, old=False)
        self._hurry(now)
        return effects

    def on_missed(self, peer: str, now: float) -> None:
        """Note that a message other than an exchange did not reach a peer; a pending exchange stays pending."""
        longest = self._settings.horizon if self._contacts.is_wanted(peer) else LONGEST_SECONDS
        if self._failures.fail(peer, now, longest) >= ENOUGH:
            self._view.drop(peer)
        if peer in self._warm:
            self._warm.remove(peer)
        self._rewarm(now)
        self._hurry(now)

    def on_return(self, peer: str | None, now: float) -> None:
        """Retry a failed peer, which is reachable again, or all failed peers if `peer` is None."""
        self._failures.forgive(peer, now)
        self._rewarm(now)
        self._hurry(now)

    def on_success(self, peer: str) -> None:
        """Note that a peer answered any message of this device."""
        self._failures.clear(peer)

    def expel(self, peers: Collection[str], now: float) -> None:
        """Forget these devices, which `verify` refuses from now on, and never try to reach them again."""
        self._expelled = frozenset(peers)
        for peer in self._expelled:
            self._view.expel(peer)
            self._pending.pop(peer, None)
        self._warm = [peer for peer in self._warm if peer not in self._expelled]
        self._rewarm(now)
        self._hurry(now)

    def adopt(self, incarnation: int, now: float) -> None:
        """Continue in the incarnation that a DuplicateIdentity states, after that incarnation has been made durable."""
        self._record = self._issue(incarnation, 1, leaving=self._record.leaving)
        self._issued = now

    def leave(self, now: float) -> list[Effect]:
        """Announce the departure by requests to the warm peers, which forward it. Later ticks begin no exchange."""
        self._record = self._issue(self._record.incarnation, self._record.sequence + 1, leaving=True)
        self._issued = now
        self.due = float("inf")
        return [self._request(peer, 0, now) for peer in self._warm if peer not in self._pending]

    def peers(self, now: float) -> tuple[Contact, ...]:
        """Return all possible recipients: the view, and seeds from which no record has come yet."""
        unheard = (
            seed
            for seed in self._contacts.unheard
            if self._is_reachable(seed.node_id) and not self._failures.is_shunned(seed.node_id, now)
        )
        return (*self._contacts_of(peer for peer in self._view.ids if self._is_ready(peer, now)), *unheard)

    def sample(self, count: int, now: float) -> tuple[Contact, ...]:
        """Return `count` different contacts of `peers`, drawn uniformly, or all if there are fewer."""
        peers = self.peers(now)
        return tuple(self._dice.sample(peers, min(count, len(peers))))

    def warm(self) -> tuple[Contact, ...]:
        """Return the peers whose channels are kept open, drawn from the view, replaced on failure or at intervals."""
        return tuple(self._contacts_of(self._warm))

    def find(self, node_id: str) -> Contact | None:
        """Return the contact of a device; None if it is unknown."""
        record = self._view.get(node_id)
        return self._contacts.find(node_id, None if record is None else record.contact)

    def has_left(self, node_id: str) -> bool:
        """Return whether a device's newest record announces its departure."""
        record = self._view.get(node_id)
        return record is not None and record.leaving

    def _take(self, introducer: str, exchange: Exchange, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for entry in exchange.entries:
            if entry.record.node_id == self._id:
                effects += self._handle_own_record(entry.record, now)
        strangers = {entry.record.node_id for entry in exchange.entries if self._view.get(entry.record.node_id) is None}

        def shunned(node: str) -> bool:
            """Return whether a device failed at addresses other than those in its own record."""
            return node not in strangers and self._failures.is_shunned(node, now)

        for node in self._view.take(introducer, exchange, now, shunned):
            self._contacts.note_record(node)
            if node in strangers:
                self._failures.clear(node)
        self._rewarm(now)
        return effects

    def _handle_own_record(self, record: PeerRecord, now: float) -> list[Effect]:
        """Handle a record of this device that came back: it is old, or another device has signed it."""
        if record == self._record or record.version < self._record.version:
            return []
        try:
            self._verify(record)
        except MessageRefused as refusal:
            self.refused[refusal.reason] += 1
            return []
        if now - self._conflict_at < self._settings.horizon:  # limits how often two copies outbid each other
            return []
        self._conflict_at = now
        return [DuplicateIdentity(min(record.incarnation + 1, MAX_NUMBER))]

    def _exchange(self, recipient: str, stated: PeerRecord | None, now: float) -> Exchange:
        own = Entry(self._record, max(0.0, now - self._issued))
        return Exchange((own, *self._view.entries_for(recipient, stated, MAX_ENTRIES - 1, now)))

    def _renew(self, now: float) -> None:
        self._record = self._issue(self._record.incarnation, self._record.sequence + 1)
        self._issued = now

    def _draw(self, redraws: int, now: float, *, old: bool) -> list[Effect]:
        """Return a request to a peer of the view, or to an old contact if `old` is set or the view is empty."""
        view = [peer for peer in self._view.ids if self._is_free(peer, now)]
        if old or not view:
            others = sorted(set(self._contacts) - set(self._view.ids))
            view = [peer for peer in others if self._is_free(peer, now)] or view
        return [self._request(self._dice.choice(view), redraws, now)] if view else []

    def _request(self, peer: str, redraws: int, now: float) -> Request:
        contact = self.find(peer)
        if contact is None:
            raise InternalError(f"{peer} was drawn and cannot be found: report this defect")
        self._pending[peer] = _Pending(now + self._settings.period, redraws)
        self.traffic["sent"] += 1
        return Request(contact, self._exchange(peer, None, now))

    def _is_free(self, peer: str, now: float) -> bool:
        return peer not in self._pending and self._is_ready(peer, now)

    def _is_ready(self, peer: str, now: float) -> bool:
        return now >= self._failures.retry_at(peer) and self._is_reachable(peer)

    def _is_reachable(self, peer: str) -> bool:
        contact = None if peer in self._expelled else self.find(peer)
        return contact is not None and any(map(self._reaches, contact.endpoints))

    def _contacts_of(self, peers: Iterable[str]) -> list[Contact]:
        return [contact for peer in peers if (contact := self.find(peer)) is not None]

    def _rewarm(self, now: float) -> None:
        """Fill the warm set from the view; devices that have left, or are forgotten, are removed."""
        records = {peer: self._view.get(peer) for peer in self._warm}
        self._warm = [peer for peer, record in records.items() if record is not None and not record.leaving]
        others = self._cold_peers(now)
        missing = self._settings.warm_size - len(self._warm)
        self._warm += self._dice.sample(others, min(missing, len(others)))

    def _rotate(self, now: float) -> None:
        """Replace a peer of the warm set, which may be dead and unused, by another peer of the view."""
        if self._warm and (others := self._cold_peers(now)):
            self._warm[self._dice.randrange(len(self._warm))] = self._dice.choice(others)

    def _cold_peers(self, now: float) -> list[str]:
        return [peer for peer in self._view.ids if peer not in self._warm and self._is_ready(peer, now)]

    def _hurry(self, now: float) -> None:
        """Schedule an early retry, as soon as a pause has elapsed, if this device knows no peer."""
        if self._view.ids or self._pending or self._record.leaving:
            return
        retries = [self._failures.retry_at(peer) for peer in self._contacts if self._is_reachable(peer)]
        if retries:
            self.due = min(self.due, max(now + min(1.0, self._settings.period), min(retries)))
