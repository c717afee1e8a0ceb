"""Durable, atomic writes of identity files, and reads that reject private files that other users can access."""

import fcntl
import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path

from sottovoce.errors import IdentityError
from sottovoce.limits import describe_shortage
from sottovoce.storage.durable import rename, sync

_OTHER_USERS = stat.S_IRWXG | stat.S_IRWXO
_LOCK_SECONDS = 10.0  # much longer than another process needs to write its small files
_RETRY_SECONDS = 0.01
_locked: ContextVar[frozenset[tuple[int, int]]] = ContextVar("locked directories", default=frozenset())


def make_private_directory(directory: Path) -> None:
    """Create a directory with mode 0700, or accept an existing one that other users have no access to.

    Raises:
        IdentityError: if the directory cannot be created, or it exists and other users have access to it.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = directory.stat().st_mode
        sync(directory.parent)
    except OSError as error:
        raise IdentityError(
            f"{directory} cannot be created: {error.strerror}; specify a directory that you can write to"
        ) from error
    if mode & _OTHER_USERS:
        raise IdentityError(f"{directory} is open to other users: run `chmod 700` on it, or specify a new directory")


def check_new(paths: Iterable[Path]) -> None:
    """Check that these files can be created, before a step that cannot be undone.

    Raises:
        IdentityError: if one of the files exists, or its parent directory does not.
    """
    for path in paths:
        if os.path.lexists(path):
            raise IdentityError(
                f"{path} already exists and will not be overwritten; rename it, or specify a new directory"
            )
        if not path.parent.is_dir():
            raise IdentityError(
                f"{path} cannot be written: {path.parent} is not a directory; create it or specify a different path"
            )


def write_new(files: dict[Path, bytes]) -> None:
    """Write new files with mode 0600, each of them atomically; they are durable on disk when this function returns.

    Raises:
        IdentityError: if a file exists (then no file is written), or a file cannot be written.
    """
    check_new(files)
    with ExitStack() as locks:
        for directory in sorted({path.parent.resolve() for path in files}):
            locks.enter_context(exclusive(directory))
        check_new(files)  # again, because another process may have created a file while this one waited for a lock
        for path, content in files.items():
            replace(path, content)


def replace(path: Path, content: bytes) -> None:
    """Atomically write or replace a file with mode 0600; it is durable on disk when this function returns.

    Raises:
        IdentityError: if the file cannot be written; the previous file is then unchanged.
    """
    draft = path.with_name(f".{path.name}.new")
    try:
        with exclusive(path.parent):
            draft.unlink(missing_ok=True)
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            rename(draft, path)
    except OSError as error:
        raise IdentityError(
            f"{path} cannot be written: {error.strerror}; check the directory's permissions and the disk's free space"
        ) from error


@contextmanager
def exclusive(directory: Path) -> Iterator[None]:
    """Lock a directory, for as long as this process reads files there and writes what follows from them.

    Two processes that each read a document, sign its successor and write it would otherwise sign two successors with
    one version number and lose one of them. A lock that this thread already holds is entered again. The lock belongs
    to the directory itself, so it survives a rename, and ends with the process.

    Raises:
        IdentityError: if the directory cannot be opened, or another process does not release the lock within 10
            seconds.
    """
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise IdentityError(
            f"{directory} cannot be opened: {error.strerror}; specify a directory that you can read and write"
        ) from error
    try:
        status = os.fstat(descriptor)
        inode = (status.st_dev, status.st_ino)
        if inode in _locked.get():
            yield
            return
        _wait_for_lock(descriptor, directory)
        if not _is_at(status, directory):
            raise IdentityError(f"{directory} was moved or deleted by another process meanwhile; try again")
        token = _locked.set(_locked.get() | {inode})
        try:
            yield
        finally:
            _locked.reset(token)
    finally:
        os.close(descriptor)


def _is_at(status: os.stat_result, path: Path) -> bool:
    try:
        return os.path.samestat(status, path.stat())
    except FileNotFoundError:
        return False


def _wait_for_lock(descriptor: int, directory: Path) -> None:
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise IdentityError(
                    f"{directory} is locked by another process; stop that process and try again"
                ) from None
            time.sleep(_RETRY_SECONDS)


def read(path: Path) -> bytes:
    """Return the content of a public file.

    Raises:
        IdentityError: if the file cannot be read.
    """
    return _read(path, private=False)


def read_private(path: Path) -> bytes:
    """Return the content of a private file.

    Raises:
        IdentityError: if the file cannot be read, or its mode gives other users any access.
    """
    return _read(path, private=True)


def _read(path: Path, *, private: bool) -> bytes:
    try:
        with path.open("rb") as file:
            if private and os.fstat(file.fileno()).st_mode & _OTHER_USERS:
                raise IdentityError(
                    f"{path} is open to other users: run `chmod 600` on it, and replace it if others have read it"
                )
            return file.read()
    except FileNotFoundError as error:
        raise IdentityError(f"{path} is missing: restore it, or enrol with `sottovoce fleet join`") from error
    except OSError as error:
        remedy = describe_shortage(error) or f"{error.strerror}; fix its owner or mode"
        raise IdentityError(f"{path} cannot be read: {remedy}") from error
