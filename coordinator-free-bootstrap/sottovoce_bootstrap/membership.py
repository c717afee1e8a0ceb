"""Peer sampling as a state machine without I/O; the caller provides the time and the random number generator.

This is NewsCast (Jelasity, Voulgaris, Guerraoui, Kermarrec and van Steen, "Gossip-based Peer Sampling", TOCS 25(3),
2007): once per period, a device exchanges entries with one peer from its view, and both devices store the freshest
entries. Descriptors are signed, ages are relative, and old contacts are retried occasionally, so that a partitioned
fleet reunites.

All times are in seconds on one monotonic clock. No method blocks, and all state is bounded in size.
"""

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from sottovoce.errors import InternalError, MessageRefused

from sottovoce_bootstrap.adaptive_period import AdaptivePeriod
from sottovoce_bootstrap.contact import Contact
from sottovoce_bootstrap.contacts import Contacts
from sottovoce_bootstrap.effects import DuplicateIdentity, Effect, Remember, Request
from sottovoce_bootstrap.exchange import MAX_ENTRIES, Entry, Exchange
from sottovoce_bootstrap.failures import LONGEST_SECONDS, MAX_FAILURES, Failures
from sottovoce_bootstrap.record import MAX_NUMBER, PeerRecord
from sottovoce_bootstrap.settings import Settings
from sottovoce_bootstrap.view import View

REDRAWS = 2
"""Number of further peers to try if an exchange is not answered, so that a fleet recovers quickly after losing half its
devices."""

OLD_CONTACT_EVERY = 10
_SEEDS_AT_ONCE = 3
_JITTER = 0.1


class Issue(Protocol):
    """A function that signs this device's records, such as sottovoce_bootstrap.record.Author.issue."""

    def __call__(self, incarnation: int, sequence: int, *, leaving: bool = False) -> PeerRecord:
        """Return a signed record with this version."""
        ...


def _reaches_all(_: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class _Pending:
    deadline: float
    redraws: int


class Membership:
    """One device's membership in the overlay.

    Args:
        node_id: this device's node id.
        settings: the peer sampling settings.
        incarnation: the result of BootCounter.begin.
        issue: function that signs this device's records.
        verify: function that raises MessageRefused for a record that does not belong to this fleet, such as
            Verifier.verify.
        seeds: peers from the configuration and the invitation, which are tried first until their records have arrived.
        book: contacts from the address book.
        rng: random number generator for all random choices.
        now: current time in seconds.
        reaches: function that returns whether any of this device's transports can reach an endpoint. A device that none
            of them can reach stays known, and its record is forwarded, but this device does not contact it.

    Attributes:
        due: when to call `tick` next, in seconds; any method call may change it.
        traffic: number of requests that were `sent`, `answered`, `failed` and `received`.
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
        reaches: Callable[[str], bool] = _reaches_all,
    ) -> None:
        self.due = now
        self.traffic: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self._id = node_id
        self._settings = settings
        self._issue = issue
        self._verify = verify
        self._rng = rng
        self._reaches = reaches
        self._contacts = Contacts(seeds, book, node_id, rng)
        self._adaptive_period = AdaptivePeriod(settings.period, now)
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
        """This device's newest record."""
        return self._record

    @property
    def view(self) -> tuple[PeerRecord, ...]:
        """The records in the view, the freshest one first."""
        return tuple(record for peer in self._view.ids if (record := self._view.get(peer)) is not None)

    def recently_seen(self, now: float) -> tuple[tuple[PeerRecord, float], ...]:
        """Return the newest records of up to 1,024 recently seen devices, in the view or not, with ages in seconds."""
        return tuple((sighting.record, max(0.0, now - sighting.born)) for sighting in self._view.recently_seen())

    @property
    def period(self) -> float:
        """Current time in seconds between the exchanges that this device initiates; see AdaptivePeriod."""
        return self._adaptive_period.period

    def learn(self, source: str, contacts: Iterable[Contact], now: float) -> None:
        """Store contacts from a source; they are tried but not trusted.

        Args:
            source: name of the source, whose earlier contacts are forgotten.
            contacts: any number of contacts, of which at most 32 are stored.
            now: current time in seconds.
        """
        self._contacts.learn(source, contacts, self._view.ids)
        self._schedule_early_retry(now)

    def tick(self, now: float) -> list[Effect]:
        """Start this period's exchanges; call this method at time `due`."""
        if self._record.leaving:
            return []
        self._ticks += 1
        self._adaptive_period.count_started(now)
        self._renew(now)
        effects: list[Effect] = []
        for peer in [peer for peer, pending in self._pending.items() if pending.deadline <= now]:
            effects += self.on_failure(peer, now)
        seeds = [seed.node_id for seed in self._contacts.unheard_seeds if self._is_free(seed.node_id, now)]
        for seed in self._rng.sample(seeds, min(len(seeds), _SEEDS_AT_ONCE)):
            effects.append(self._request(seed, REDRAWS, now))
        candidates = [peer for peer in self._contacts.candidates if self._is_free(peer, now)]
        for peer in self._rng.sample(candidates, min(len(candidates), 1 if self._view.ids else _SEEDS_AT_ONCE)):
            effects.append(self._request(peer, 0, now))
        old = self._ticks % OLD_CONTACT_EVERY == 0
        self._refill_warm_set(now)
        if old:
            self._rotate_warm_set(now)
        effects += self._request_exchange(REDRAWS, now, old=old)
        self.due = now + self.period * self._rng.uniform(1 - _JITTER, 1 + _JITTER)
        self._schedule_early_retry(now)
        return effects

    def on_request(self, sender: str, exchange: Exchange, now: float) -> tuple[Exchange, list[Effect]]:
        """Answer a peer's exchange.

        Args:
            sender: the sender's authenticated node id.
            exchange: the sender's exchange.
            now: current time in seconds.

        Returns:
            The reply, and the effects to perform.

        Raises:
            MessageRefused: with reason `rate`, with reason `sender` if the first entry is not the sender's own, or with
                the reason for which the sender's record is refused. The view is then unchanged.
        """
        self._view.admit(sender, exchange, now)
        self.traffic["received"] += 1
        self._adaptive_period.count_received()
        self._failures.forgive(sender, now)
        reply = self._exchange(sender, exchange.sender, now)
        effects = self._merge_exchange(sender, exchange, now)
        return reply, effects

    def on_reply(self, peer: str, exchange: Exchange, now: float) -> list[Effect]:
        """Process the reply to a request.

        Raises:
            MessageRefused: with reason `unsolicited` or `sender`, or with the reason for which the peer's record is
                refused. The view is then unchanged, and a pending request stays pending: report it with on_failure.
        """
        if peer not in self._pending:
            raise MessageRefused("unsolicited", f"{peer} replied, but no exchange with it is pending")
        self._view.check(peer, exchange)
        del self._pending[peer]
        self.traffic["answered"] += 1
        self.on_success(peer)
        effects = self._merge_exchange(peer, exchange, now)
        contact = self.find(peer)
        if contact is not None:
            self._contacts.note_answer(contact)
            effects.append(Remember(contact))
        return effects

    def on_failure(self, peer: str, now: float, *, blamed: bool = True) -> list[Effect]:
        """Record that a peer did not answer an exchange.

        Args:
            peer: the peer's node id.
            now: current time in seconds.
            blamed: whether the peer may have caused the failure. If False, this device is cut off, so no other peer is
                tried and no peer is dropped.
        """
        pending = self._pending.pop(peer, None)
        self.traffic["failed"] += pending is not None
        effects: list[Effect] = []
        if not blamed:
            return effects
        self.on_missed(peer, now)
        if pending is not None and pending.redraws and not self._record.leaving:
            effects += self._request_exchange(pending.redraws - 1, now, old=False)
        self._schedule_early_retry(now)
        return effects

    def on_missed(self, peer: str, now: float) -> None:
        """Record that a message other than an exchange did not reach a peer; a pending exchange stays pending."""
        longest = self._settings.horizon if self._contacts.is_wanted(peer) else LONGEST_SECONDS
        if self._failures.fail(peer, now, longest) >= MAX_FAILURES:
            self._view.drop(peer)
        if peer in self._warm:
            self._warm.remove(peer)
        self._refill_warm_set(now)
        self._schedule_early_retry(now)

    def on_peer_reachable(self, peer: str | None, now: float) -> None:
        """Allow an immediate retry of a failed peer that is reachable again, or of all peers if `peer` is None."""
        self._failures.forgive(peer, now)
        self._refill_warm_set(now)
        self._schedule_early_retry(now)

    def on_success(self, peer: str) -> None:
        """Record that a peer answered a message of any kind from this device."""
        self._failures.clear(peer)

    def expel(self, peers: Collection[str], now: float) -> None:
        """Forget these devices, which `verify` now refuses, and contact none of them until a later call omits them."""
        self._expelled = frozenset(peers)
        for peer in self._expelled:
            self._view.expel(peer)
            self._pending.pop(peer, None)
        self._warm = [peer for peer in self._warm if peer not in self._expelled]
        self._refill_warm_set(now)
        self._schedule_early_retry(now)

    def adopt(self, incarnation: int, now: float) -> None:
        """Continue with the incarnation from a DuplicateIdentity effect, which must already be durable."""
        self._record = self._issue(incarnation, 1, leaving=self._record.leaving)
        self._issued = now

    def leave(self, now: float) -> list[Effect]:
        """Return requests that announce this device's departure to the warm peers, which forward it.

        Later calls to `tick` do not start any exchange.
        """
        self._record = self._issue(self._record.incarnation, self._record.sequence + 1, leaving=True)
        self._issued = now
        self.due = float("inf")
        return [self._request(peer, 0, now) for peer in self._warm if peer not in self._pending]

    def peers(self, now: float) -> tuple[Contact, ...]:
        """Return all possible recipients: peers in the view, and seeds from which no record has arrived yet."""
        unheard = (
            seed
            for seed in self._contacts.unheard_seeds
            if self._is_reachable(seed.node_id) and not self._failures.is_shunned(seed.node_id, now)
        )
        return (*self._find_contacts(peer for peer in self._view.ids if self._is_ready(peer, now)), *unheard)

    def sample(self, count: int, now: float) -> tuple[Contact, ...]:
        """Return `count` different contacts, sampled uniformly from `peers`, or all of them if there are fewer."""
        peers = self.peers(now)
        return tuple(self._rng.sample(peers, min(count, len(peers))))

    def warm(self) -> tuple[Contact, ...]:
        """Return the peers whose channels stay open: random peers from the view, replaced on failure and over time."""
        return tuple(self._find_contacts(self._warm))

    def find(self, node_id: str) -> Contact | None:
        """Return a device's contact, or None if the device is unknown."""
        record = self._view.get(node_id)
        return self._contacts.find(node_id, None if record is None else record.contact)

    def has_left(self, node_id: str) -> bool:
        """Return whether a device's newest record announces its departure."""
        record = self._view.get(node_id)
        return record is not None and record.leaving

    def _merge_exchange(self, introducer: str, exchange: Exchange, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for entry in exchange.entries:
            if entry.record.node_id == self._id:
                effects += self._handle_own_record(entry.record, now)
        strangers = {entry.record.node_id for entry in exchange.entries if self._view.get(entry.record.node_id) is None}

        def shunned(node: str) -> bool:
            """Return whether a device failed too often; a device whose record is new may have a new address."""
            return node not in strangers and self._failures.is_shunned(node, now)

        for node in self._view.take(introducer, exchange, now, shunned):
            self._contacts.note_record(node)
            if node in strangers:
                self._failures.clear(node)
        self._refill_warm_set(now)
        return effects

    def _handle_own_record(self, record: PeerRecord, now: float) -> list[Effect]:
        """Handle a record in this device's name, which is either old or signed by a copy of this device."""
        if record == self._record or record.version < self._record.version:
            return []
        try:
            self._verify(record)
        except MessageRefused as refusal:
            self.refused[refusal.reason] += 1
            return []
        if now - self._conflict_at < self._settings.horizon:  # limits how often two copies can outbid each other
            return []
        self._conflict_at = now
        return [DuplicateIdentity(min(record.incarnation + 1, MAX_NUMBER))]

    def _exchange(self, recipient: str, known_record: PeerRecord | None, now: float) -> Exchange:
        own_entry = Entry(self._record, max(0.0, now - self._issued))
        return Exchange((own_entry, *self._view.entries_for(recipient, known_record, MAX_ENTRIES - 1, now)))

    def _renew(self, now: float) -> None:
        self._record = self._issue(self._record.incarnation, self._record.sequence + 1)
        self._issued = now

    def _request_exchange(self, redraws: int, now: float, *, old: bool) -> list[Effect]:
        """Return at most one request to a peer in the view, or to an old contact if `old` is set or no peer is free."""
        candidates = [peer for peer in self._view.ids if self._is_free(peer, now)]
        if old or not candidates:
            contacts = sorted(set(self._contacts) - set(self._view.ids))
            candidates = [peer for peer in contacts if self._is_free(peer, now)] or candidates
        return [self._request(self._rng.choice(candidates), redraws, now)] if candidates else []

    def _request(self, peer: str, redraws: int, now: float) -> Request:
        contact = self.find(peer)
        if contact is None:
            raise InternalError(
                f"{peer} was selected but does not have a known address: this is a bug; please report it"
            )
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

    def _find_contacts(self, peers: Iterable[str]) -> list[Contact]:
        return [contact for peer in peers if (contact := self.find(peer)) is not None]

    def _refill_warm_set(self, now: float) -> None:
        """Remove devices that have left or are forgotten from the warm set, and fill it from the view."""
        records = {peer: self._view.get(peer) for peer in self._warm}
        self._warm = [peer for peer, record in records.items() if record is not None and not record.leaving]
        replacements = self._cold_peers(now)
        missing = self._settings.warm_size - len(self._warm)
        self._warm += self._rng.sample(replacements, min(missing, len(replacements)))

    def _rotate_warm_set(self, now: float) -> None:
        """Replace a random peer in the warm set, which may have died unnoticed, with another peer from the view."""
        if self._warm and (replacements := self._cold_peers(now)):
            self._warm[self._rng.randrange(len(self._warm))] = self._rng.choice(replacements)

    def _cold_peers(self, now: float) -> list[str]:
        return [peer for peer in self._view.ids if peer not in self._warm and self._is_ready(peer, now)]

    def _schedule_early_retry(self, now: float) -> None:
        """Schedule an early retry for when a backoff has elapsed, if the view is empty and no request is pending."""
        if self._view.ids or self._pending or self._record.leaving:
            return
        retries = [self._failures.retry_at(peer) for peer in self._contacts if self._is_reachable(peer)]
        if retries:
            self.due = min(self.due, max(now + min(1.0, self._settings.period), min(retries)))
