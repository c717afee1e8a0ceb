"""Exchange of views between two devices: a request and its reply have the same form."""

import math
from dataclasses import dataclass

from sottovoce.errors import MessageRefused

from sottovoce_bootstrap.record import PeerRecord

MAX_ENTRIES = 16


@dataclass(frozen=True, slots=True)
class Entry:
    """Record, with the time since its device issued it, as far as the sender knows.

    Attributes:
        record: the record.
        age: seconds, at least 0; not signed. Clocks are never compared: each holder adds the time for which it held the
            record.

    Raises:
        MessageRefused: for `record`: the age is not a number of seconds.
    """

    record: PeerRecord
    age: float

    def __post_init__(self) -> None:
        """Check that the age is a number of seconds."""
        if not (math.isfinite(self.age) and self.age >= 0):
            raise MessageRefused("record", "an age must be a number of seconds, at least 0")


@dataclass(frozen=True, slots=True)
class Exchange:
    """Sender's own entry, with entries that it chose from its view.

    Attributes:
        entries: 1 to 16 entries of different devices; the sender's own entry comes first.

    Raises:
        MessageRefused: for `entries`: there are none or too many, or two belong to one device.
    """

    entries: tuple[Entry, ...]

    def __post_init__(self) -> None:
        """Check that the entries are few and all different."""
        if not 1 <= len(self.entries) <= MAX_ENTRIES:
            raise MessageRefused("entries", f"an exchange must have 1 to {MAX_ENTRIES} entries")
        if len({entry.record.node_id for entry in self.entries}) < len(self.entries):
            raise MessageRefused("entries", "an exchange must have only one entry per device")

    @property
    def sender(self) -> PeerRecord:
        """Record of the device that sent the exchange."""
        return self.entries[0].record
