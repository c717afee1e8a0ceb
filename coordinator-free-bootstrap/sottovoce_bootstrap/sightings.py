"""The newest record of every device lately heard of, with a bound on its age: the memory behind the view.

Ages are unsigned, so a relay may lie about them. Two rules bound the lie, both by this device's own knowledge:

- A record cannot be younger than the time since it was first seen here. Anyone who says "age 0" of a dead device's last
  record, however often, buys it one horizon in this view, counted from its first appearance, and no more.
- A record cannot be older than the one it replaces. Anyone who makes a newer record older than that gains nothing.

A record stays in this memory after it has left the view, so that no older one takes its place: replayed, or of a device
that has said it is leaving.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from sottovoce_bootstrap.contact import Network, prefix
from sottovoce_bootstrap.record import PeerRecord

CAPACITY = 1024


@dataclass(slots=True)
class Sighting:
    """A record and when it was issued, by this device's own clock.

    Attributes:
        record: the newest of its device.
        first_seen: when this very record first came here, seconds.
        born: when it was issued, as far as can be said, seconds; never later than `first_seen`.
        networks: those of the global Internet that its endpoints are in, as sottovoce_bootstrap.contact.prefix says.
    """

    record: PeerRecord
    first_seen: float
    born: float
    networks: frozenset[Network]


class Sightings:
    """Sightings of at most 1,024 devices; the one heard of longest ago is forgotten first."""

    def __init__(self) -> None:
        self._sightings: OrderedDict[str, Sighting] = OrderedDict()

    def __len__(self) -> int:
        """How many devices are remembered."""
        return len(self._sightings)

    def __iter__(self) -> Iterator[Sighting]:
        """Each of them, who was heard of the longest ago first."""
        return iter(self._sightings.values())

    def get(self, node_id: str) -> Sighting | None:
        """Sighting of a device."""
        return self._sightings.get(node_id)

    def forget(self, node_id: str) -> None:
        """Know nothing of a device any more."""
        self._sightings.pop(node_id, None)

    def is_news(self, record: PeerRecord) -> bool:
        """Whether a record is newer than the known one, so that its signature has yet to be verified."""
        known = self._sightings.get(record.node_id)
        return known is None or record.version > known.record.version

    def note(self, record: PeerRecord, age: float, now: float, keep: Collection[str]) -> Sighting:
        """Take note of a record that was verified, or is no news.

        Args:
            record: the record.
            age: seconds since it was issued, as its bearer says.
            now: seconds.
            keep: ids that are not forgotten to make room; fewer than the memory holds.

        Returns:
            Note a record as its device's newest.
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
