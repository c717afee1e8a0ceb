"""The numbers of records, as a ledger keeps them: what they are made of stands in sottovoce.vault.numbering."""

from collections.abc import Sequence

from sottovoce.vault.keeper_list import Access


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
