"""Count the bytes that a ledger writes to disk per day.

Flash memory wears out with every write, but a ledger must remain writable. The count is derived from SQLite's
write-ahead log (https://sqlite.org/walformat.html), without querying the storage device. Every page is written at most
twice: to the log, and to the database file at a checkpoint. Additional writes by the file system are not counted.
"""

import struct
import time
from collections.abc import Callable
from pathlib import Path

_HEADER = struct.Struct(">8xI4x8s8x")  # page size, salts
_FRAME = struct.Struct(">8x8s8x")  # salts
_DAY_SECONDS = 86_400


class DiskWriteCounter:
    """Counter for the bytes appended to one log.

    Args:
        log: the log file, which SQLite may create, restart and remove at any time.
        clock: returns the seconds since 1970; determines the end of a UTC day.
    """

    def __init__(self, log: Path, clock: Callable[[], float] = time.time) -> None:
        self._log = log
        self._clock = clock
        self._salts = b""
        self._frames = 0
        self._day = self._today()
        self._written = 0
        self.count()
        self._written = 0  # excludes bytes already in the log, from another process or another day

    def count(self) -> None:
        """Count the bytes appended since the last call. Call this method after every transaction."""
        if (day := self._today()) != self._day:
            self._day, self._written = day, 0
        if not self._log.exists():
            self._salts, self._frames = b"", 0
            return
        with self._log.open("rb") as file:
            header = file.read(_HEADER.size)
            if len(header) < _HEADER.size:
                return
            page, salts = _HEADER.unpack(header)
            if salts != self._salts:
                self._salts, self._frames = salts, 0
            while True:
                file.seek(_HEADER.size + self._frames * (_FRAME.size + page))
                frame = file.read(_FRAME.size)
                if len(frame) < _FRAME.size or _FRAME.unpack(frame)[0] != salts:
                    return
                self._frames += 1
                self._written += _FRAME.size + 2 * page

    def skip(self) -> None:
        """Leave out the bytes appended since the last call of `count`."""
        written = self.bytes_today
        self.count()
        self._written = written

    @property
    def bytes_today(self) -> int:
        """Upper bound on the bytes written since midnight UTC, or since this object was created."""
        return self._written if self._today() == self._day else 0

    def _today(self) -> int:
        return int(self._clock() // _DAY_SECONDS)
