"""The newest record of every recently seen device, with limits on the age that a relay can claim for it.

Ages are not signed, so a relay can lie about them. Two rules, based on this device's own knowledge, limit such lies:

- A record is at least as old as the time since this device first saw it. If a relay keeps claiming "age 0" for a dead
  device's last record, the record still stays in the view for at most one horizon from its first appearance.
- A record is no older than the record that it replaces, so a relay gains nothing by claiming a higher age for a newer
  record.

A record stays in this memory after it has left the view, so that no older record of the same device can replace it,
such as a replayed record or one from before the device announced its departure.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from sottovoce_bootstrap.contact import Network, prefix
from sottovoce_bootstrap.record import PeerRecord

CAPACITY = 1024


@dataclass(slots=True)
class Sighting:
    """A record, and the time at which it was issued by this device's clock.

    Attributes:
        record: the newest record of its device.
        first_seen: time at which this record first arrived at this device, in seconds.
        born: best estimate of the time at which the record was issued, in seconds; never later than `first_seen`.
        networks: public Internet networks that contain the record's endpoints; see sottovoce_bootstrap.contact.prefix.
    """

    record: PeerRecord
    first_seen: float
    born: float
    networks: frozenset[Network]


class Sightings:
    """The sightings of at most 1,024 devices; the least recently seen device is dropped first."""

    def __init__(self) -> None:
        self._sightings: OrderedDict[str, Sighting] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of devices in memory."""
        return len(self._sightings)

    def __iter__(self) -> Iterator[Sighting]:
        """Yield all sightings, starting with the least recently seen device."""
        return iter(self._sightings.values())

    def get(self, node_id: str) -> Sighting | None:
        """Return a device's sighting, or None if the device is unknown."""
        return self._sightings.get(node_id)

    def forget(self, node_id: str) -> None:
        """Remove a device's sighting."""
        self._sightings.pop(node_id, None)

    def is_news(self, record: PeerRecord) -> bool:
        """Return whether a record is newer than the known one, in which case its signature must still be verified."""
        sighting = self._sightings.get(record.node_id)
        return sighting is None or record.version > sighting.record.version

    def note(self, record: PeerRecord, age: float, now: float, protected: Collection[str]) -> Sighting:
        """Store a record that has been verified or is not new.

        Args:
            record: the record.
            age: seconds since the record was issued, as claimed by the device that forwarded it.
            now: current time in seconds.
            protected: ids of devices that must not be forgotten to make room; there must be fewer than the capacity.

        Returns:
            The sighting of the device's newest known record.
        """
        sighting = self._sightings.get(record.node_id)
        if sighting is None:
            sighting = self._sightings[record.node_id] = Sighting(record, now, now - age, _networks(record))
        elif record.version > sighting.record.version:
            born = max(now - age, sighting.born)
            sighting = self._sightings[record.node_id] = Sighting(record, now, born, _networks(record))
        elif record == sighting.record:
            sighting.born = min(sighting.first_seen, max(now - age, sighting.born))
        else:
            return sighting
        self._sightings.move_to_end(record.node_id)
        while len(self._sightings) > CAPACITY:
            del self._sightings[next(node for node in self._sightings if node not in protected)]
        return sighting


def _networks(record: PeerRecord) -> frozenset[Network]:
    return frozenset(network for endpoint in record.endpoints if (network := prefix(endpoint)) is not None)
