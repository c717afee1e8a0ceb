"""A device's view of its fleet: the entries that it takes from an exchange, and the entries that it gives."""

import random
from collections import Counter
from collections.abc import Callable, Iterable

from sottovoce.errors import MessageRefused

from sottovoce_bootstrap.exchange import Entry, Exchange
from sottovoce_bootstrap.freshest import freshest
from sottovoce_bootstrap.quotas import Quotas
from sottovoce_bootstrap.record import PeerRecord
from sottovoce_bootstrap.settings import Settings
from sottovoce_bootstrap.sightings import Sighting, Sightings

_DEPARTED_KEPT = 15
_DEPARTED_TOLD = 3


class View:
    """View of at most c devices, never this one, each with its newest record.

    Args:
        own: node id of this device.
        settings: settings of the fleet.
        verify: raises MessageRefused for a record that does not belong to this fleet.
        rng: source of randomness for breaking ties.
        refused: counter of refused records, by reason.
    """

    def __init__(
        self,
        own: str,
        settings: Settings,
        verify: Callable[[PeerRecord], None],
        rng: random.Random,
        refused: Counter[str],
    ) -> None:
        self._own = own
        self._settings = settings
        self._verify = verify
        self._dice = rng
        self._refused = refused
        self._sightings = Sightings()
        self._quotas = Quotas(settings.period, settings.introductions)
        self._ids: list[str] = []
        self._departed: list[str] = []

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the ids in the view, the freshest first."""
        return tuple(self._ids)

    def get(self, node_id: str) -> PeerRecord | None:
        """Return the newest record of a recently seen device, in the view or not; None if unknown."""
        sighting = self._sightings.get(node_id)
        return None if sighting is None else sighting.record

    def known(self) -> tuple[Sighting, ...]:
        """Return all recently seen devices, in the view or not, the one seen longest ago first."""
        return tuple(self._sightings)

    def drop(self, node_id: str) -> None:
        """Remove a device that does not answer; an exchange may bring it back."""
        if node_id in self._ids:
            self._ids.remove(node_id)

    def expel(self, node_id: str) -> None:
        """Remove a device and forget its records, so that a record that arrives later is verified again."""
        self.drop(node_id)
        self._sightings.forget(node_id)
        if node_id in self._departed:
            self._departed.remove(node_id)

    def admit(self, sender: str, exchange: Exchange, now: float) -> None:
        """Admit a request.

        Raises:
            MessageRefused: for `rate`, or for a reason of `check`.
        """
        self._quotas.request(sender, now)
        self.check(sender, exchange)

    def check(self, sender: str, exchange: Exchange) -> None:
        """Check that an exchange is from its sender.

        Raises:
            MessageRefused: for `sender`, if the first entry is another device's; or for the reason for which the
                sender's record is refused.
        """
        if exchange.sender.node_id != sender:
            raise MessageRefused("sender", f"the first entry of an exchange from {sender} is another device's")
        if self._sightings.is_news(exchange.sender):
            self._verify(exchange.sender)

    def take(self, introducer: str, exchange: Exchange, now: float, shunned: Callable[[str], bool]) -> list[str]:
        """Merge a checked exchange: newer records are noted, and the freshest of old and new become the view.

        Args:
            introducer: node id of the sender.
            exchange: the exchange; the freshest of its entries that are new to the view enter it, up to the limit.
            now: seconds.
            shunned: returns whether a device must not enter.

        Returns:
            ids of the devices whose newest records the exchange contained.
        """
        own, *others = exchange.entries
        heard = [
            entry.record.node_id
            for entry in (own, *sorted(others, key=lambda entry: entry.age))
            if self._note(introducer, entry, now)
        ]
        ids = dict.fromkeys((*self._ids, *(node for node in heard if not shunned(node))))
        candidates = [
            sighting
            for sighting in self._sighted(ids)
            if not sighting.record.leaving and now - sighting.born <= self._settings.horizon
        ]
        kept = freshest(candidates, self._settings.view_size, self._dice)
        self._ids = [sighting.record.node_id for sighting in kept]
        return heard

    def entries_for(self, recipient: str, stated: PeerRecord | None, count: int, now: float) -> list[Entry]:
        """Return entries for another device: the devices that have just left, and the freshest of the view.

        Args:
            recipient: node id of the other device; its own record is included only if it is newer than `stated`.
            stated: the recipient's own record that it has just sent; None without one.
            count: largest number of entries.
            now: seconds.
        """
        itself = self._sightings.get(recipient)
        proof = itself if itself and stated and itself.record.version > stated.version else None
        departed = [sighting for sighting in self._sighted(self._departed) if sighting.record.leaving]
        fresh = [
            sighting
            for sighting in (*departed[-_DEPARTED_TOLD:], *self._sighted(self._ids))
            if now - sighting.born <= self._settings.horizon and sighting.record.node_id != recipient
        ]
        told = ([proof] if proof else []) + fresh
        return [Entry(sighting.record, max(0.0, now - sighting.born)) for sighting in told[:count]]

    def _note(self, introducer: str, entry: Entry, now: float) -> bool:
        """Note one entry; return whether it is the newest of its device, and may enter the view."""
        record = entry.record
        newcomer = record.node_id not in self._ids and record.node_id != introducer
        if record.node_id == self._own or entry.age > self._settings.horizon:
            return False
        if newcomer and not self._quotas.may_introduce(introducer, now):
            return False
        if self._sightings.is_news(record):
            try:
                self._verify(record)
            except MessageRefused as refusal:
                self._refused[refusal.reason] += 1
                return False
        if self._sightings.note(record, entry.age, now, keep=self._ids).record != record:
            return False
        if newcomer:
            self._quotas.note_introduction(introducer)
        if record.leaving and record.node_id not in self._departed:
            self._departed = [*self._departed, record.node_id][-_DEPARTED_KEPT:]
        return True

    def _sighted(self, node_ids: Iterable[str]) -> list[Sighting]:
        found = (self._sightings.get(node_id) for node_id in node_ids)
        return [sighting for sighting in found if sighting is not None]
