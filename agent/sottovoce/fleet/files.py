"""Durable, atomic writes of identity files, and reads that reject private files that other users can access."""

import fcntl
import os
import shutil
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sottovoce.errors import IdentityError
from sottovoce.storage.durable import rename, sync

_STAGING = "coming"  # directory for files that are about to be moved into its parent directory
_OTHER_USERS = stat.S_IRWXG | stat.S_IRWXO
_LOCK_SECONDS = 10.0  # much longer than another process needs to write its small files
_RETRY_SECONDS = 0.01


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
    for path, content in files.items():
        replace(path, content)


def replace(path: Path, content: bytes) -> None:
    """Atomically write or replace a file with mode 0600; it is durable on disk when this function returns.

    Raises:
        IdentityError: if the file cannot be written; the previous file is then unchanged.
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
        raise IdentityError(
            f"{path} cannot be written: {error.strerror}; check the directory's permissions and the disk's free space"
        ) from error


def write_files(directory: Path, files: dict[str, bytes]) -> None:
    """Write or replace several files in a directory, either all of them or none, even if the power fails.

    Raises:
        IdentityError: if the files cannot be written.
    """
    staging = directory / _STAGING
    draft = staging.with_name(f".{_STAGING}.new")
    try:
        with _lock(directory):
            if draft.exists():
                shutil.rmtree(draft)
            make_private_directory(draft)
            for name, content in files.items():
                replace(draft / name, content)
            rename(draft, staging)
            _finish_move(directory)
    except OSError as error:
        raise IdentityError(
            f"{directory} cannot be written: {error.strerror}; check its permissions and the disk's free space"
        ) from error


def finish_move(directory: Path) -> None:
    """Complete a `write_files` that a power cut interrupted.

    Raises:
        IdentityError: if the directory cannot be written.
    """
    if not (directory / _STAGING).is_dir():
        return
    try:
        with _lock(directory):
            _finish_move(directory)
    except OSError as error:
        raise IdentityError(
            f"{directory} cannot be written: {error.strerror}; check its permissions and the disk's free space"
        ) from error


def _finish_move(directory: Path) -> None:
    staging = directory / _STAGING
    if not staging.is_dir():
        return
    for file in sorted(staging.iterdir()):
        rename(file, directory / file.name)
    staging.rmdir()


@contextmanager
def _lock(directory: Path) -> Iterator[None]:
    """Lock the directory, because an agent and a command that write the same file must not share a draft file.

    Raises:
        OSError: if the directory cannot be opened.
        IdentityError: if another process does not release the lock within 10 seconds.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    deadline = time.monotonic() + _LOCK_SECONDS
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise IdentityError(
                        f"{directory} is locked by another process; stop that process and try again"
                    ) from None
                time.sleep(_RETRY_SECONDS)
        yield
    finally:
        os.close(descriptor)


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
        raise IdentityError(f"{path} cannot be read: {error.strerror}; fix its owner or mode") from error
