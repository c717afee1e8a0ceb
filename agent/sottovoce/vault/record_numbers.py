"""The numbers of records, as a ledger keeps them: what they are made of stands in sottovoce.vault.numbering."""

from collections.abc import Sequence
from typing import Literal

from sottovoce.accounting.stored import event_of
from sottovoce.accounting.units import EVERY
from sottovoce.errors import PrivacyError
from sottovoce.vault.keeper_list import Access
from sottovoce.vault.mandate import Mandate

Numbering = Literal["hashed", "enrolled"]


class RecordNumbers:
    """Of one ledger. Every method raises LedgerError when the disk or the file fails.

    Args:
        reading: its file, to be read.
        writing: the same in one transaction.
    """

    def __init__(self, reading: Access, writing: Access) -> None:
        self._reading, self._writing = reading, writing

    @property
    def key(self) -> bytes:
        """What records are numbered by. It never leaves the vault."""
        with self._reading() as connection:
            return bytes(connection.execute("SELECT key FROM secret").fetchone()[0])

    def use(self, numbering: Numbering, mandate: Mandate | None) -> None:
        """Charges name records in this way from now on. A task has one learner, and the ledger numbers anew with it.

        Raises:
            PrivacyError: there are charges that name them in the other way.
        """
        if mandate is not None:
            return
        with self._reading() as connection:
            row = connection.execute("SELECT kind FROM numbering ORDER BY number DESC LIMIT 1").fetchone()
        if row == (numbering,):
            return
        with self._writing() as connection:
            before = row[0] if row else "enrolled" if self.files() else "hashed"  # of an earlier version
            terms = connection.execute("SELECT DISTINCT terms FROM charge")
            if before != numbering and any(event_of(one[0]).units != EVERY for one in terms):
                raise PrivacyError(
                    "this ledger has charged single records for a learner that numbers them otherwise, so that nobody "
                    "can say what each has paid: put learner.name back, or let the fleet sign a task with this learner"
                )
            connection.execute("INSERT INTO numbering (kind) VALUES (?)", (numbering,))

    def enrol(self, digests: Sequence[bytes]) -> list[int]:
        """The numbers of the records of a file, durably; -1 for those that have none.

        A file with more records than any before gives those that were never met the numbers of their places, behind the
        numbers of earlier such files. Other files give none.

        Args:
            digests: different from each other, in the file's order.
        """
        with self._writing() as connection:
            held: dict[bytes, int | None] = dict(connection.execute("SELECT digest, number FROM record"))
            files = self.files()
            grown, first = len(digests) > max(files, default=0), sum(files)
            if grown:
                connection.execute("INSERT INTO file (records) VALUES (?)", (len(digests),))
            for place, digest in enumerate(digests):
                if digest not in held:
                    held[digest] = first + place if grown else None
                    connection.execute("INSERT INTO record VALUES (?, ?)", (digest, held[digest]))
        return [-1 if (number := held[digest]) is None else number for digest in digests]

    def files(self) -> tuple[int, ...]:
        """How many records each file had that gave numbers: so many numbers are taken."""
        with self._reading() as connection:
            return tuple(int(row[0]) for row in connection.execute("SELECT records FROM file ORDER BY number"))

    @property
    def first_file(self) -> int:
        """How many records the first of them had; 0 while there is none."""
        return next(iter(self.files()), 0)
