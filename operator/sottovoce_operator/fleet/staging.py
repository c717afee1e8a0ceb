"""Atomic writes of several files in the fleet's directory, which all change when the fleet's key does."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sottovoce.errors import IdentityError
from sottovoce.fleet.files import exclusive, make_private_directory, replace
from sottovoce.storage.durable import rename

_STAGING = "coming"  # directory for files that are about to be moved into its parent directory


def write_files(directory: Path, files: dict[str, bytes]) -> None:
    """Write or replace several files in a directory, either all of them or none, even if the power fails.

    Raises:
        IdentityError: if the files cannot be written.
    """
    staging = directory / _STAGING
    draft = staging.with_name(f".{_STAGING}.new")
    with _exclusive_writes(directory):
        if draft.exists():
            shutil.rmtree(draft)
        make_private_directory(draft)
        for name, content in files.items():
            replace(draft / name, content)
        rename(draft, staging)
        _finish_move(directory)


def finish_move(directory: Path) -> None:
    """Complete a `write_files` that a power cut interrupted.

    Raises:
        IdentityError: if the directory cannot be written.
    """
    if not (directory / _STAGING).is_dir():
        return
    with _exclusive_writes(directory):
        _finish_move(directory)


@contextmanager
def _exclusive_writes(directory: Path) -> Iterator[None]:
    """Lock a directory while the block writes to it; raise IdentityError if the block cannot write."""
    try:
        with exclusive(directory):
            yield
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
