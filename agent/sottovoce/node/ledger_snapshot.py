"""Read-only snapshot of a ledger for other programs; the original is left unchanged.

When SQLite reads a database, it creates files next to the database, to which the ledger's own user must be able to
write later. Therefore, if no program has the ledger open, a copy is read instead.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sottovoce.errors import LedgerError
from sottovoce.privacy.vault import Ledger


@contextmanager
def snapshot(path: Path) -> Iterator[tuple[Ledger, Path]]:
    """Open a ledger for reading, and yield it with the path of the file that is actually read.

    Raises:
        LedgerError: if the ledger is missing or corrupt, or cannot be read.
    """
    with _stable_path(path) as stable_path:
        try:
            ledger = Ledger.read(stable_path)
        except LedgerError as error:
            raise LedgerError(str(error).replace(str(stable_path), str(path))) from error
        try:
            yield ledger, stable_path
        finally:
            ledger.close()


@contextmanager
def _stable_path(path: Path) -> Iterator[Path]:
    """Yield the ledger's own path if a program has it open or was killed while using it, otherwise a copy's path."""
    if not path.exists() or path.with_name(path.name + "-shm").exists():
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="sottovoce-snapshot-") as directory:
        copy = Path(directory) / path.name
        try:
            for suffix in ("", "-wal"):
                source = path.with_name(path.name + suffix)
                if source.exists():
                    shutil.copyfile(source, copy.with_name(source.name))
        except OSError as error:
            raise LedgerError(
                f"{path}: cannot read the file ({error.strerror}); run this command as the file's owner"
            ) from error
        yield copy
