"""Directory in memory, for tests that write thousands of files and do not test durability."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SHARED = Path("/dev/shm")


@contextmanager
def memory_directory(otherwise: Path) -> Iterator[Path]:
    """Provide an empty directory, in memory if the system has such a place, else in `otherwise`."""
    with tempfile.TemporaryDirectory(dir=SHARED if SHARED.is_dir() else otherwise) as directory:
        yield Path(directory)
