"""Files that a command writes: checked before a long run, written after it."""

import os
from pathlib import Path

from sottovoce.errors import UsageError


def check_writable(option: str, path: Path) -> None:
    """Refuse before the run, not after it.

    Raises:
        UsageError: `path` is no file that could be written.
    """
    directory = path.absolute().parent
    try:
        made, free = directory.is_dir(), not path.is_dir()
        free = free and os.access(path if path.exists() else directory, os.W_OK)
    except PermissionError:  # this user may not even look into the directory
        made, free = True, False
    if not made:
        raise UsageError(f"{option} {path}: there is no such directory; make it first")
    if not free:
        raise UsageError(f"{option} {path}: cannot be written; name a file in a directory of yours")


def write(option: str, path: Path, text: str) -> None:
    """Write a text and a line's end.

    Raises:
        UsageError: it cannot be written after all.
    """
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{option} {path}: cannot be written ({error.strerror})") from error
