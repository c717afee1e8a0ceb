"""Counter of a device's starts, used as the incarnation in its records so that older records never count as new.

This incarnation differs from the incarnation in envelopes, which stays the same as long as the agent's state exists:
after a start, a device issues new records but resends envelopes unchanged.
"""

import time
from pathlib import Path

from sottovoce.errors import DataError
from sottovoce.storage.durable import rename

from sottovoce_bootstrap.record import MAX_NUMBER


class BootCounter:
    """A counter in a separate small file; each value is durable on disk before it is used.

    Args:
        path: path of the file, which is created at the first start.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def begin(self) -> int:
        """Count a start and return the new incarnation; call this once per process, before issuing the first record.

        If the file is missing or malformed, the counter continues from the current Unix time in seconds, which exceeds
        any realistic number of starts.

        Raises:
            DataError: if the file cannot be read or written.
        """
        try:
            previous = int(self._path.read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            previous = 0
        except OSError as error:
            raise self._unusable(error) from error
        incarnation = previous + 1 if 0 < previous < MAX_NUMBER else max(1, int(time.time()))
        self.advance(incarnation)
        return incarnation

    def advance(self, incarnation: int) -> None:
        """Write an incarnation durably to disk before it is used.

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
        return DataError(f"{self._path}: {error.strerror}; free disk space and check the file's permissions")
