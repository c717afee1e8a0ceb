"""Count the bytes that a device writes to its disk per day, across restarts and crashes.

Flash memory wears out with every write, but a ledger must remain writable. A ledger's count is derived from SQLite's
write-ahead log (https://sqlite.org/walformat.html), without querying the storage device. Every page is written at most
twice: to the log, and to the database file at a checkpoint. Additional writes by the file system are not counted.
"""

import contextlib
import os
import re
import struct
import time
from collections.abc import Callable
from pathlib import Path

DAY_SECONDS = 86_400
_HEADER = struct.Struct(">8xI4x8s8x")  # page size, salts
_FRAME = struct.Struct(">8x8s8x")  # salts
_TOTAL = re.compile(rb"(\d{10}) (\d{20})\n")


class DailyTotal:
    """Total of the bytes written in the current UTC day, which is kept in a small file.

    The file is ahead of the total: it contains a block of bytes that have not been written yet, and is rewritten when
    half of them have been. A crash therefore counts up to a block too many, and none too few; a clean end writes the
    exact total. Rewriting the file writes one page of the disk.

    Args:
        path: path of the file, which is created if it is missing; None if the total does not outlive the object.
        block: number of bytes by which the file is ahead.
        if_corrupt: total that a corrupt file stands for.
        clock: returns the seconds since 1970.

    Raises:
        OSError: if the file cannot be read or written.
    """

    def __init__(
        self, path: Path | None, block: int, if_corrupt: int = 0, clock: Callable[[], float] = time.time
    ) -> None:
        self._block = block
        self._clock = clock
        self._day, self._total, self._recorded = self._today(), 0, 0
        self._file: int | None = None
        if path is not None:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            content = os.pread(self._file, 64, 0)
            match = _TOTAL.fullmatch(content)
            if match is None:
                self._total = if_corrupt if content else 0
            elif int(match[1]) >= self._day:  # a day ahead comes from a clock that was wrong
                self._total = int(match[2])
            self._record(self._total + block)

    @property
    def bytes_today(self) -> int:
        """Bytes written since midnight UTC; after a crash, up to a block more."""
        return self._total if self._today() == self._day else 0

    def add(self, count: int) -> None:
        """Add bytes that have been written today.

        Raises:
            OSError: if the file cannot be written.
        """
        if (day := self._today()) != self._day:
            self._day, self._total, self._recorded = day, 0, 0
        self._total += count
        if self._total + self._block // 2 > self._recorded:
            self._record(self._total + self._block)

    def close(self) -> None:
        """Write the exact total, if possible, and close the file."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # the file is ahead of the total
                self._record(self.bytes_today)
            os.close(self._file)
            self._file = None

    def _record(self, total: int) -> None:
        if self._file is not None:
            os.pwrite(self._file, b"%010d %020d\n" % (self._day, total), 0)
            os.fdatasync(self._file)
        self._recorded = total

    def _today(self) -> int:
        return int(self._clock() // DAY_SECONDS)


class DiskWriteCounter:
    """Counter for the bytes appended to one log.

    Args:
        log: the log file, which SQLite may create, restart and remove at any time.
        total: total to which they are added.
    """

    def __init__(self, log: Path, total: DailyTotal) -> None:
        self._log = log
        self._total = total
        self._salts = b""
        self._frames = 0
        self.skip()  # excludes bytes already in the log, from another process or another day

    def count(self) -> None:
        """Count the bytes appended since the last call. Call this method after every transaction.

        Raises:
            OSError: if the log cannot be read, or the total cannot be written.
        """
        self._total.add(self._read_appended())

    def skip(self) -> None:
        """Leave out the bytes appended since the last call of `count`."""
        self._read_appended()

    def _read_appended(self) -> int:
        """Return the number of bytes appended since the last call, each page counted twice."""
        written = 0
        if not self._log.exists():
            self._salts, self._frames = b"", 0
            return 0
        with self._log.open("rb") as file:
            header = file.read(_HEADER.size)
            if len(header) < _HEADER.size:
                return 0
            page, salts = _HEADER.unpack(header)
            if salts != self._salts:
                self._salts, self._frames = salts, 0
            while True:
                file.seek(_HEADER.size + self._frames * (_FRAME.size + page))
                frame = file.read(_FRAME.size)
                if len(frame) < _FRAME.size or _FRAME.unpack(frame)[0] != salts:
                    return written
                self._frames += 1
                written += _FRAME.size + 2 * page

    @property
    def bytes_today(self) -> int:
        """Upper bound on the bytes written since midnight UTC."""
        return self._total.bytes_today

    def close(self) -> None:
        """Close the total."""
        self._total.close()
