"""Migration of a device to a new directory, where it continues from the same ledger; the old ledger is closed for good.

When the old ledger is ended, the new directory is already complete on disk, except that the new ledger still has a
temporary name. That ledger gets its final name only after the old one has been ended. After a power failure at any
point, at most one of the two ledgers can be used, and running the same command again resumes the move. An entry that
costs nothing is added to the new ledger. This entry makes the new ledger's head newer than that of any copy, so the
witnesses know the new head as soon as the device has started once.
"""

import hashlib
import os
import secrets
import shutil
from contextlib import closing
from pathlib import Path

from sottovoce.errors import LedgerError
from sottovoce.privacy.accounting.events import LedgerMove
from sottovoce.privacy.vault import Ledger
from sottovoce.storage.durable import rename, sync

_LEDGER = "ledger.db"
_MOVING = "moving"  # file in a draft directory that contains the owner and the nonce of the move that created it
_SKIPPED_SUFFIXES = (".sock", ".lock", "-shm", ".new")


def move(state: Path, target: Path) -> Path:
    """Move a stopped device, or its separate vault, to a new directory.

    Args:
        state: the device's state directory, or the vault directory of a separate vault.
        target: the directory that becomes the state directory; it must not exist yet.

    Returns:
        the path of the ledger in the new directory.

    Raises:
        LedgerError: if the ledger is in use, missing, corrupt or already ended, the target cannot be used, or the disk
            failed. If the old ledger has not been ended, it remains usable.
    """
    state, target = state.resolve(), target.resolve()
    ledger, draft = state / _LEDGER, target.with_name((target.name or "root") + ".new")
    with closing(Ledger.read(ledger)) as reader:
        owner, budget, ending = reader.owner, reader.own_budget, reader.ending_move()
    try:
        if ending is None:
            _check_target(state, target, draft, owner)
            nonce = secrets.token_hex(16)
            with closing(Ledger.open(ledger, owner, budget)) as old:
                shutil.rmtree(draft, ignore_errors=True)
                _copy(state, draft, f"{owner} {nonce}")
                _begin_new_ledger(old, draft / (_LEDGER + ".moving"), nonce)
                old.end(nonce, str(target))
            return _finish_move(draft, target)
        if ending[1] == str(target) and _read_mark(draft) == f"{owner} {ending[0]}":
            return _finish_move(draft, target)
    except OSError as error:
        raise LedgerError(
            f"cannot write to {target} ({error.strerror or error}); free up disk space, or specify another "
            f"directory. `sottovoce ledger show --state {state}` shows whether the device is still in the old "
            "directory"
        ) from error
    raise LedgerError(
        f"{ledger} has already been moved to {ending[1]}, and the copy left here is permanently closed; start the "
        "device from the new directory"
    )


def _check_target(state: Path, target: Path, draft: Path, owner: str) -> None:
    """Check that the target directory is free, and that neither directory is inside the other.

    Raises:
        LedgerError: if a check fails.
    """
    if target.is_relative_to(state) or state.is_relative_to(target):
        raise LedgerError(
            f"{target}: neither directory may contain the other; specify one that is separate from {state}"
        )
    if target.exists():
        raise LedgerError(f"{target} already exists; specify a directory that does not exist yet")
    mark = _read_mark(draft)
    if draft.exists() and (mark is None or mark.split()[0] != owner):
        raise LedgerError(
            f"{draft} already exists and does not belong to this device, perhaps because another device's move "
            "did not finish; specify another directory"
        )


def _read_mark(draft: Path) -> str | None:
    """Return the mark of the move that created a draft directory, or None if no move created it."""
    mark = draft / _MOVING
    return mark.read_text() if mark.is_file() else None


def _copy(state: Path, draft: Path, mark: str) -> None:
    """Copy the state directory, except for the ledger and for files that belong to a running process."""

    def ignored_names(directory: str, names: list[str]) -> set[str]:
        is_top_level = Path(directory) == state
        return {
            name for name in names if name.endswith(_SKIPPED_SUFFIXES) or (is_top_level and name.startswith(_LEDGER))
        }

    draft.mkdir(mode=0o700, parents=True)
    (draft / _MOVING).write_text(mark)
    shutil.copytree(state, draft, ignore=ignored_names, symlinks=True, dirs_exist_ok=True)
    for root, _, files in os.walk(draft):
        for path in (Path(root), *(Path(root) / name for name in files)):
            if not path.is_symlink():
                sync(path)


def _begin_new_ledger(old: Ledger, path: Path, nonce: str) -> None:
    """Create the new ledger under a temporary name, which no program opens."""
    old.copy(path)
    with closing(Ledger.open(path, old.owner, old.own_budget)) as new:
        new.charge(hashlib.sha256(b"sottovoce/moved/v1|" + nonce.encode()).digest(), LedgerMove(nonce))
    sync(path)
    path.with_name(path.name + ".lock").unlink(missing_ok=True)


def _finish_move(draft: Path, target: Path) -> Path:
    """Rename the new ledger and the new directory to their final names; safe to repeat after a power failure."""
    moving = draft / (_LEDGER + ".moving")
    if moving.exists():
        rename(moving, draft / _LEDGER)
    rename(draft, target)
    (target / _MOVING).unlink(missing_ok=True)
    return target / _LEDGER
