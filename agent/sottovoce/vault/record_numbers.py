"""Meaning of the numbers of a ledger's charges, as stored; sottovoce.vault.numbering assigns the numbers."""

from dataclasses import dataclass
from typing import Literal

from sottovoce.accounting.relations import Promise
from sottovoce.accounting.stored import event_of
from sottovoce.accounting.units import EVERY
from sottovoce.errors import PrivacyError
from sottovoce.vault.keeper_list import Access
from sottovoce.vault.mandate import Mandate, read_stamp

_ANY = Promise("record", "replace-one")  # the promise of a charge without a stamp does not matter here
Numbering = Literal["hashed", "enrolled"]


class RecordNumbers:
    """Numbers of one ledger's records. Every method raises LedgerError when the disk or the file fails.

    Args:
        reading: opens the ledger's file for reading.
        writing: opens the ledger's file for one transaction.
    """

    def __init__(self, reading: Access, writing: Access) -> None:
        self._reading, self._writing = reading, writing

    @property
    def key(self) -> bytes:
        """Key under which records are numbered. It never leaves the vault."""
        with self._reading() as connection:
            return bytes(connection.execute("SELECT key FROM secret").fetchone()[0])

    def use(self, numbering: Numbering, mandate: Mandate | None) -> None:
        """Set the numbering by which charges name records from now on. A task has one learner and its own numbering.

        Raises:
            PrivacyError: if there are charges that name records in the other way.
        """
        if mandate is not None:
            return
        with self._reading() as connection:
            row = connection.execute("SELECT kind FROM numbering ORDER BY number DESC LIMIT 1").fetchone()
        if row == (numbering,):
            return
        with self._writing() as connection:
            before = row[0] if row else "hashed"  # no row: the file is from an earlier version
            terms = connection.execute("SELECT DISTINCT terms FROM charge")
            if before != numbering and any(event_of(one[0]).units != EVERY for one in terms):
                raise PrivacyError(
                    "this ledger has charged single records for a learner that numbers them differently, so the "
                    "charges of each are unknown: put learner.name back, or let the fleet sign a task with this "
                    "learner"
                )
            connection.execute("INSERT INTO numbering (kind) VALUES (?)", (numbering,))

    def enrol(self, epoch: int, enrolled: "Enrolled") -> None:
        """Store the records that a task's charges name, durably and permanently.

        Args:
            epoch: epoch of the fleet's task; 0 before any.
            enrolled: records of the task.

        Raises:
            PrivacyError: charges of this task name records that were enrolled by an earlier version, which did not
                keep them.
        """
        with self._writing() as connection:
            for terms, stamp in connection.execute("SELECT DISTINCT terms, stamp FROM charge"):
                if event_of(terms).units != EVERY and read_stamp(stamp, _ANY).epoch == epoch:
                    raise PrivacyError(
                        "this ledger has charged single records of a file that it did not keep, as an earlier version "
                        "of the program did, so that nothing more can be released of them: let the fleet sign a new "
                        "task, or join as a new device"
                    )
            connection.execute(
                "INSERT INTO enrolled VALUES (?, ?, ?, ?, ?)",
                (epoch, enrolled.prepared, enrolled.records, enrolled.features, enrolled.value),
            )

    def enrolled_records(self, epoch: int) -> "Enrolled | None":
        """Return the records that this task's charges name; None before its first start."""
        with self._reading() as connection:
            columns = "SELECT prepared, records, features, value FROM enrolled WHERE epoch = ?"
            row = connection.execute(columns, (epoch,)).fetchone()
        return None if row is None else Enrolled(*row)


@dataclass(frozen=True, slots=True)
class Enrolled:
    """The records with which a task began, in the order of the file.

    Attributes:
        prepared: see Records.
        records: number of records.
        features: number of features of each.
        value: features float64 and then labels int64, little-endian, compressed by zlib.
    """

    prepared: str
    records: int
    features: int
    value: bytes
