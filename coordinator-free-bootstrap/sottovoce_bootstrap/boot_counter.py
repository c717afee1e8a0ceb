"""Counter of a device's starts, used as its records' incarnation, so that earlier starts' records never count as new.

This is not the incarnation of envelopes, which lasts for the lifetime of the agent's state: after a start, records are
issued again, but envelopes are resent unchanged.
"""

import time
from pathlib import Path

from sottovoce.durable import rename
from sottovoce.errors import DataError

from sottovoce_bootstrap.record import MAX_NUMBER


class BootCounter:
    """Counter in a small file of its own; each count is on the disk before it is used.

    Args:
        path: path of the file, which is created at the first start.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def begin(self) -> int:
        """Count a start: call this once per process, before the first record is issued.

        If the file is missing or malformed, the count continues from the current Unix time, which exceeds any number of
        starts.

        Raises:
            DataError: if the file cannot be written or read.
        """
        try:
            last = int(self._path.read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            last = 0
        except OSError as error:
            raise self._unusable(error) from error
        incarnation = last + 1 if 0 < last < MAX_NUMBER else max(1, int(time.time()))
        self.advance(incarnation)
        return incarnation

    def advance(self, incarnation: int) -> None:
        """Make an incarnation durable before it is used.

        Raises:
            DataError: if the file cannot be written.
        """
        draft = self._path.with_name(self._path.name + ".new")
        try:
            draft.write_text(str(incarnation), encoding="ascii")
            draft.chmod(0o600)
            rename(draft, self._path)
        except OSError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: OSError) -> DataError:
        return DataError(f"{self._path}: {error.strerror}; make room on its disk and check its permissions")
