"""Identity files: written durably and in one step; private ones for their owner alone."""

import fcntl
import os
import shutil
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sottovoce.durable import rename, sync
from sottovoce.errors import IdentityError

_COMING = "coming"  # holds files that are about to be moved into the parent directory
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_LOCK_SECONDS = 10.0  # more than enough for another process that writes small files
_RETRY_SECONDS = 0.01


def make_private_directory(directory: Path) -> None:
    """Make a directory of mode 0700, or accept one that other users cannot enter.

    Raises:
        IdentityError: if it cannot be made, or it exists and others can enter it.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = directory.stat().st_mode
        sync(directory.parent)
    except OSError as error:
        raise IdentityError(f"{directory} cannot be made: {error.strerror}; give a directory you may write") from error
    if mode & _OTHERS:
        raise IdentityError(f"{directory} can be entered by other users: `chmod 700` it, or give a new directory")


def check_new(paths: Iterable[Path]) -> None:
    """Check, before a step that cannot be undone, that these files can be created.

    Raises:
        IdentityError: if one of them exists, or its directory does not.
    """
    for path in paths:
        if os.path.lexists(path):
            raise IdentityError(f"{path} exists and is never overwritten: move it away, or give a new directory")
        if not path.parent.is_dir():
            raise IdentityError(f"{path} cannot be written: {path.parent} is no directory; make it, or give another")


def write_new(files: dict[Path, bytes]) -> None:
    """Write new files into one directory, each whole or not at all, with mode 0600; they are on the disk on return.

    Raises:
        IdentityError: if one of them exists (then none is written), or they cannot be written.
    """
    check_new(files)
    for path, content in files.items():
        replace(path, content)


def replace(path: Path, content: bytes) -> None:
    """Write or replace a file, whole or not at all, with mode 0600; it is on the disk on return.

    Raises:
        IdentityError: if it cannot be written; the file before is unchanged.
    """
    draft = path.with_name(f".{path.name}.new")
    try:
        with _lock(path.parent):
            draft.unlink(missing_ok=True)
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            rename(draft, path)
    except OSError as error:
        raise IdentityError(f"{path} cannot be written: {error.strerror}; free space or fix the disk") from error


def move_in(directory: Path, files: dict[str, bytes]) -> None:
    """Write or replace files in a directory: all of them or none, even in a power cut.

    Raises:
        IdentityError: if they cannot be written.
    """
    coming = directory / _COMING
    draft = coming.with_name(f".{_COMING}.new")
    try:
        with _lock(directory):
            if draft.exists():
                shutil.rmtree(draft)
            make_private_directory(draft)
            for name, content in files.items():
                replace(draft / name, content)
            rename(draft, coming)
            _finish_move(directory)
    except OSError as error:
        raise IdentityError(f"{directory} cannot be written: {error.strerror}; free space or fix the disk") from error


def finish_move(directory: Path) -> None:
    """Finish a move that a power cut has interrupted.

    Raises:
        IdentityError: if the directory cannot be written.
    """
    if not (directory / _COMING).is_dir():
        return
    try:
        with _lock(directory):
            _finish_move(directory)
    except OSError as error:
        raise IdentityError(f"{directory} cannot be written: {error.strerror}; free space or fix the disk") from error


def _finish_move(directory: Path) -> None:
    coming = directory / _COMING
    if not coming.is_dir():
        return
    for file in sorted(coming.iterdir()):
        rename(file, directory / file.name)
    coming.rmdir()


@contextmanager
def _lock(directory: Path) -> Iterator[None]:
    """Hold the directory's lock; without it, an agent and a command that write the same file would share its draft.

    Raises:
        OSError: if the directory cannot be opened.
        IdentityError: if another process keeps it locked.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    end = time.monotonic() + _LOCK_SECONDS
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise IdentityError(f"{directory} is locked by another process: stop it, and try again") from None
                time.sleep(_RETRY_SECONDS)
        yield
    finally:
        os.close(descriptor)


def read(path: Path) -> bytes:
    """Read a public file.

    Raises:
        IdentityError: if it cannot be read.
    """
    return _read(path, private=False)


def read_private(path: Path) -> bytes:
    """Read a private file.

    Raises:
        IdentityError: if it cannot be read, or others than its owner can read or change it.
    """
    return _read(path, private=True)


def _read(path: Path, *, private: bool) -> bytes:
    try:
        with path.open("rb") as file:
            if private and os.fstat(file.fileno()).st_mode & _OTHERS:
                raise IdentityError(f"{path} is open to other users: `chmod 600` it, and renew it if others used it")
            return file.read()
    except FileNotFoundError as error:
        raise IdentityError(f"{path} is missing: restore it, or enrol with `sottovoce fleet join`") from error
    except OSError as error:
        raise IdentityError(f"{path} cannot be read: {error.strerror}; fix its owner or mode") from error
