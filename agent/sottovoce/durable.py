"""Files whose names and contents survive a power cut."""

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Return once a file's content, or a directory's entries, are on the disk.

    Raises:
        OSError: it cannot be opened, or the disk failed.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def rename(draft: Path, path: Path) -> None:
    """Give a finished file or directory its name: the content is on the disk before the name, the name on return.

    Raises:
        OSError: the disk failed.
    """
    sync(draft)
    draft.rename(path)
    sync(path.parent)
