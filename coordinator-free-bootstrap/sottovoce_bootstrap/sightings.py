"""Memory behind the view: the newest record of every recently seen device, with a bound on its age.

Ages are not signed, so a relay can lie about them. Two rules, based on this device's own knowledge, limit such lies:

- A record is at least as old as the time since it was first seen here. A relay that claims "age 0" for a dead device's
  last record, however often, keeps the record in this view for one horizon from its first appearance, and no longer.
- A record is no older than the record that it replaces, so claiming a higher age for a newer record gains nothing.

A record stays in this memory after it has left the view, so that no older record of its device can take its place:
neither a replayed record, nor a record from before the device announced its departure.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from sottovoce_bootstrap.contact import Network, prefix
from sottovoce_bootstrap.record import PeerRecord

CAPACITY = 1024


@dataclass(slots=True)
class Sighting:
    """Record, with its time of issue by this device's own clock.

    Attributes:
        record: newest record of its device.
        first_seen: time at which this record first arrived here, in seconds.
        born: best estimate of its time of issue, in seconds; never later than `first_seen`.
        networks: networks of the global Internet that contain its endpoints; see sottovoce_bootstrap.contact.prefix.
    """

    record: PeerRecord
    first_seen: float
    born: float
    networks: frozenset[Network]


class Sightings:
    """Sightings of at most 1,024 devices; the device seen longest ago is forgotten first."""

    def __init__(self) -> None:
        self._sightings: OrderedDict[str, Sighting] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of devices in memory."""
        return len(self._sightings)

    def __iter__(self) -> Iterator[Sighting]:
        """Yield all sightings, the device seen longest ago first."""
        return iter(self._sightings.values())

    def get(self, node_id: str) -> Sighting | None:
        """Return the sighting of a device; None if it is unknown."""
        return self._sightings.get(node_id)

    def forget(self, node_id: str) -> None:
        """Forget a device."""
        self._sightings.pop(node_id, None)

    def is_news(self, record: PeerRecord) -> bool:
        """Return whether a record is newer than the known one, so that its signature has yet to be verified."""
        known = self._sightings.get(record.node_id)
        return known is None or record.version > known.record.version

    def note(self, record: PeerRecord, age: float, now: float, keep: Collection[str]) -> Sighting:
        """Note a record that was verified, or is not new.

        Args:
            record: the record.
            age: seconds since it was issued, as its bearer states.
            now: seconds.
            keep: ids that must not be forgotten to make room; fewer than the memory has room for.

        Returns:
            the sighting of the device's newest known record.
        """
        known = self._sightings.get(record.node_id)
        if known is None:
            known = self._sightings[record.node_id] = Sighting(record, now, now - age, _networks(record))
        elif record.version > known.record.version:
            born = max(now - age, known.born)
            known = self._sightings[record.node_id] = Sighting(record, now, born, _networks(record))
        elif record == known.record:
            known.born = min(known.first_seen, max(now - age, known.born))
        else:
            return known
        self._sightings.move_to_end(record.node_id)
        while len(self._sightings) > CAPACITY:
            del self._sightings[next(node for node in self._sightings if node not in keep)]
        return known


def _networks(record: PeerRecord) -> frozenset[Network]:
    return frozenset(network for endpoint in record.endpoints if (network := prefix(endpoint)) is not None)
