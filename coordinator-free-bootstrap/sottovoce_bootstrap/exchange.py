"""View exchanges between two devices; a request and its reply have the same form."""

import math
from dataclasses import dataclass

from sottovoce.errors import MessageRefused

from sottovoce_bootstrap.record import PeerRecord

MAX_ENTRIES = 16


@dataclass(frozen=True, slots=True)
class Entry:
    """A record, and the time since its device issued it, as far as the sender knows.

    Attributes:
        record: the record.
        age: age of the record in seconds, at least 0; not signed. Devices never compare clocks: each device adds the
            time for which it has stored the record.

    Raises:
        MessageRefused: with reason `record` if the age is not a valid number of seconds.
    """

    record: PeerRecord
    age: float

    def __post_init__(self) -> None:
        """Check that the age is a finite number of seconds and not negative."""
        if not (math.isfinite(self.age) and self.age >= 0):
            raise MessageRefused("record", "the age of a record is not a finite, non-negative number of seconds")


@dataclass(frozen=True, slots=True)
class Exchange:
    """The sender's own entry, and entries that the sender chose from its view.

    Attributes:
        entries: 1 to 16 entries for different devices; the sender's own entry comes first.

    Raises:
        MessageRefused: with reason `entries` if there are none or too many, or two belong to the same device.
    """

    entries: tuple[Entry, ...]

    def __post_init__(self) -> None:
        """Check the number of entries and that they belong to different devices."""
        if not 1 <= len(self.entries) <= MAX_ENTRIES:
            raise MessageRefused("entries", f"an exchange does not have 1 to {MAX_ENTRIES} entries")
        if len({entry.record.node_id for entry in self.entries}) < len(self.entries):
            raise MessageRefused("entries", "an exchange has more than one entry for the same device")

    @property
    def sender(self) -> PeerRecord:
        """The record of the device that sent the exchange."""
        return self.entries[0].record
