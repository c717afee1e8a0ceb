"""Storage for the records to which a ledger's charges refer; the module `numbering` assigns their numbers."""

from dataclasses import dataclass
from typing import Literal

from sottovoce.errors import PrivacyError
from sottovoce.privacy.accounting.event_parser import parse_event
from sottovoce.privacy.accounting.relations import Promise
from sottovoce.privacy.accounting.units import EVERY
from sottovoce.privacy.ledger.mandate import Mandate, parse_stamp
from sottovoce.privacy.ledger.witnesses import Access

_UNUSED_PROMISE = Promise(
    "record", "replace-one"
)  # charges without a stamp also need a promise, but its value is not used
Numbering = Literal["hashed", "enrolled"]


class RecordNumbers:
    """The record numbers of one ledger. Every method raises LedgerError if the disk or the file fails.

    Args:
        read_access: opens the ledger's file for reading.
        write_access: opens the ledger's file for one transaction.
    """

    def __init__(self, read_access: Access, write_access: Access) -> None:
        self._read_access, self._write_access = read_access, write_access

    @property
    def key(self) -> bytes:
        """The key with which records are hashed. It never leaves the vault."""
        with self._read_access() as connection:
            return bytes(connection.execute("SELECT key FROM secret").fetchone()[0])

    def set_numbering(self, numbering: Numbering, mandate: Mandate | None) -> None:
        """Set the numbering for future charges. Within a task, do nothing: each task has its own numbering.

        Raises:
            PrivacyError: if existing charges for single records use the other numbering.
        """
        if mandate is not None:
            return
        with self._read_access() as connection:
            row = connection.execute("SELECT kind FROM numbering ORDER BY number DESC LIMIT 1").fetchone()
        if row == (numbering,):
            return
        with self._write_access() as connection:
            previous = row[0] if row else "hashed"  # a file without this row is from an earlier version
            charges = connection.execute("SELECT DISTINCT terms FROM charge")
            if previous != numbering and any(parse_event(charge[0]).units != EVERY for charge in charges):
                raise PrivacyError(
                    "this ledger has charged single records for a learner that numbers them differently, so the "
                    "charges for each record are unknown: restore learner.name, or have the fleet sign a task with "
                    "this learner"
                )
            connection.execute("INSERT INTO numbering (kind) VALUES (?)", (numbering,))

    def enrol(self, epoch: int, enrolled: "EnrolledRecords") -> None:
        """Store the records to which a task's charges refer, durably, until the next task begins.

        Args:
            epoch: epoch of the fleet's task; 0 before the first task.
            enrolled: records of the task.

        Raises:
            PrivacyError: if charges for this task refer to records that an earlier version enrolled but did not store.
        """
        with self._write_access() as connection:
            for terms, stamp in connection.execute("SELECT DISTINCT terms, stamp FROM charge"):
                if parse_event(terms).units != EVERY and parse_stamp(stamp, _UNUSED_PROMISE).epoch == epoch:
                    raise PrivacyError(
                        "this ledger has charged single records in a file that an earlier version of the program did "
                        "not store, so nothing more can be released about these records: have the fleet sign a new "
                        "task, or join as a new device"
                    )
            connection.execute(
                "INSERT INTO enrolled VALUES (?, ?, ?, ?, ?)",
                (epoch, enrolled.prepared, enrolled.records, enrolled.features, enrolled.value),
            )

    @property
    def enrolled_count(self) -> int:
        """Number of records that the ledger stores."""
        with self._read_access() as connection:
            return int(connection.execute("SELECT ifnull(sum(records), 0) FROM enrolled").fetchone()[0])

    def enrolled_records(self, epoch: int) -> "EnrolledRecords | None":
        """Return the records to which this task's charges refer; None before the task's first start."""
        with self._read_access() as connection:
            columns = "SELECT prepared, records, features, value FROM enrolled WHERE epoch = ?"
            row = connection.execute(columns, (epoch,)).fetchone()
        return None if row is None else EnrolledRecords(*row)


@dataclass(frozen=True, slots=True)
class EnrolledRecords:
    """The records of a task's first start, in file order.

    Attributes:
        prepared: see Records.
        records: number of records.
        features: number of features of each record.
        value: features (float64) followed by labels (int64), little-endian; 8 · records · (features + 1) bytes.
    """

    prepared: str
    records: int
    features: int
    value: bytes
