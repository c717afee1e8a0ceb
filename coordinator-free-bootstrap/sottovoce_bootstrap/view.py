"""A device's view of its fleet, including which entries it accepts from an exchange and which entries it sends."""

import random
from collections import Counter
from collections.abc import Callable, Iterable

from sottovoce.errors import MessageRefused

from sottovoce_bootstrap.exchange import Entry, Exchange
from sottovoce_bootstrap.freshest import select_freshest
from sottovoce_bootstrap.quotas import Quotas
from sottovoce_bootstrap.record import PeerRecord
from sottovoce_bootstrap.settings import Settings
from sottovoce_bootstrap.sightings import Sighting, Sightings

_MAX_DEPARTED = 15
_MAX_DEPARTED_SENT = 3


class View:
    """A view of at most c devices, with the newest record of each; it never contains this device.

    Args:
        own_id: this device's node id.
        settings: the peer sampling settings.
        verify: function that raises MessageRefused for a record that does not belong to this fleet.
        rng: random number generator for breaking ties.
        refused: counter of refused records, by reason.
    """

    def __init__(
        self,
        own_id: str,
        settings: Settings,
        verify: Callable[[PeerRecord], None],
        rng: random.Random,
        refused: Counter[str],
    ) -> None:
        self._own_id = own_id
        self._settings = settings
        self._verify = verify
        self._rng = rng
        self._refused = refused
        self._sightings = Sightings()
        self._quotas = Quotas(settings.period, settings.introductions)
        self._ids: list[str] = []
        self._departed: list[str] = []

    @property
    def ids(self) -> tuple[str, ...]:
        """The node ids in the view, the device with the freshest record first."""
        return tuple(self._ids)

    def get(self, node_id: str) -> PeerRecord | None:
        """Return the newest record of a recently seen device, even if it is not in the view; None if unknown."""
        sighting = self._sightings.get(node_id)
        return None if sighting is None else sighting.record

    def recently_seen(self) -> tuple[Sighting, ...]:
        """Return all recently seen devices, in the view or not, the least recently seen one first."""
        return tuple(self._sightings)

    def drop(self, node_id: str) -> None:
        """Remove a device that does not answer from the view; a later exchange may add it again."""
        if node_id in self._ids:
            self._ids.remove(node_id)

    def expel(self, node_id: str) -> None:
        """Remove a device and forget its records, so that its later records are verified again."""
        self.drop(node_id)
        self._sightings.forget(node_id)
        if node_id in self._departed:
            self._departed.remove(node_id)

    def admit(self, sender: str, exchange: Exchange, now: float) -> None:
        """Count a request against the quotas and check it.

        Raises:
            MessageRefused: with reason `rate`, or as raised by `check`.
        """
        self._quotas.request(sender, now)
        self.check(sender, exchange)

    def check(self, sender: str, exchange: Exchange) -> None:
        """Check that an exchange's first entry is a valid record of its sender.

        Raises:
            MessageRefused: with reason `sender` if the first entry belongs to another device, or with the reason for
                which the sender's record is refused.
        """
        if exchange.sender.node_id != sender:
            raise MessageRefused("sender", f"the first entry of an exchange from {sender} belongs to another device")
        if self._sightings.is_news(exchange.sender):
            self._verify(exchange.sender)

    def take(self, introducer: str, exchange: Exchange, now: float, shunned: Callable[[str], bool]) -> list[str]:
        """Merge a checked exchange: store its newer records, and choose the view from the freshest old and new devices.

        Args:
            introducer: the sender's node id.
            exchange: the exchange; of its devices that are new to the view, the freshest may enter it, up to the quota.
            now: current time in seconds.
            shunned: function that returns whether a device must not enter the view.

        Returns:
            The ids of the devices whose newest records were in the exchange.
        """
        own_entry, *forwarded = exchange.entries
        updated = [
            entry.record.node_id
            for entry in (own_entry, *sorted(forwarded, key=lambda entry: entry.age))
            if self._note(introducer, entry, now)
        ]
        ids = dict.fromkeys((*self._ids, *(node for node in updated if not shunned(node))))
        candidates = [
            sighting
            for sighting in self._find_sightings(ids)
            if not sighting.record.leaving and now - sighting.born <= self._settings.horizon
        ]
        selected = select_freshest(candidates, self._settings.view_size, self._rng)
        self._ids = [sighting.record.node_id for sighting in selected]
        return updated

    def entries_for(self, recipient: str, claimed: PeerRecord | None, count: int, now: float) -> list[Entry]:
        """Return entries to send to another device: devices that have left recently, and the freshest in the view.

        Args:
            recipient: the other device's node id; its own record is included only if it is newer than `claimed`.
            claimed: the record that the recipient has just sent about itself; None if there is none.
            count: maximum number of entries.
            now: current time in seconds.
        """
        newest = self._sightings.get(recipient)
        proof = newest if newest and claimed and newest.record.version > claimed.version else None
        departed = [sighting for sighting in self._find_sightings(self._departed) if sighting.record.leaving]
        recent = [
            sighting
            for sighting in (*departed[-_MAX_DEPARTED_SENT:], *self._find_sightings(self._ids))
            if now - sighting.born <= self._settings.horizon and sighting.record.node_id != recipient
        ]
        selected = ([proof] if proof else []) + recent
        return [Entry(sighting.record, max(0.0, now - sighting.born)) for sighting in selected[:count]]

    def _note(self, introducer: str, entry: Entry, now: float) -> bool:
        """Store one entry, and return whether it is its device's newest and may enter the view."""
        record = entry.record
        newcomer = record.node_id not in self._ids and record.node_id != introducer
        if record.node_id == self._own_id or entry.age > self._settings.horizon:
            return False
        if newcomer and not self._quotas.may_introduce(introducer, now):
            return False
        if self._sightings.is_news(record):
            try:
                self._verify(record)
            except MessageRefused as refusal:
                self._refused[refusal.reason] += 1
                return False
        if self._sightings.note(record, entry.age, now, protected=self._ids).record != record:
            return False
        if newcomer:
            self._quotas.note_introduction(introducer)
        if record.leaving and record.node_id not in self._departed:
            self._departed = [*self._departed, record.node_id][-_MAX_DEPARTED:]
        return True

    def _find_sightings(self, node_ids: Iterable[str]) -> list[Sighting]:
        sightings = (self._sightings.get(node_id) for node_id in node_ids)
        return [sighting for sighting in sightings if sighting is not None]
