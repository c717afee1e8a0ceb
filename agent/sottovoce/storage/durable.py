"""Durable file operations, and diagnosis of disk errors."""

import os
import sqlite3
from pathlib import Path

_DISK_ERROR_CODES = {
    *(sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY),
    *(sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM),
}


def sqlite_code(error: BaseException) -> int:
    """Return SQLite's primary error code; 0 for an error that is not SQLite's."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def is_disk_error(error: BaseException) -> bool:
    """Return whether a database error is caused by the disk, permissions or another program, not by corruption."""
    return sqlite_code(error) in _DISK_ERROR_CODES


def is_read_only(directory: Path) -> bool:
    """Return whether a directory's disk is mounted read-only, which makes writes fail regardless of permissions."""
    try:
        return bool(os.statvfs(directory).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def sync(path: Path) -> None:
    """Flush a file's content, or a directory's entries, to the disk.

    Raises:
        OSError: if the path cannot be opened, or the disk failed.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def rename(draft: Path, path: Path) -> None:
    """Rename a finished file or directory durably.

    The content reaches the disk before the rename, and the new name before this function returns.

    Raises:
        OSError: if the disk failed.
    """
    sync(draft)
    draft.rename(path)
    sync(path.parent)
