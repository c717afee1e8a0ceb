"""Migration of a device: it continues in the new place, from the same ledger, and the old ledger is closed for good.

The new place is complete on its disk, except for the ledger's final name, before the old ledger ends; the new ledger
gets that name only afterwards. After a power failure at any point, at most one of the two ledgers can be used, and the
same command resumes the move. The new ledger begins with an entry that costs nothing and makes its head newer than any
copy's, so the keepers know this head from the first start on.
"""

import hashlib
import os
import secrets
import shutil
from contextlib import closing
from pathlib import Path

from sottovoce.accounting.events import Moved
from sottovoce.durable import rename, sync
from sottovoce.errors import LedgerError
from sottovoce.vault import Ledger

_LEDGER = "ledger.db"
_MOVING = "moving"  # file in a draft: owner and nonce of the move that made it
_STAYS = (".sock", ".lock", "-shm", ".new")


def move(state: Path, target: Path) -> Path:
    """Move a stopped device.

    Args:
        state: its state directory; of a separate vault, the vault's.
        target: a directory that does not exist yet, which becomes the state directory.

    Returns:
        the ledger in its new place.

    Raises:
        LedgerError: if the ledger is in use, missing or damaged, has ended, or the disk failed; where the old one has
            not ended, it continues as before.
    """
    state, target = state.resolve(), target.resolve()
    ledger, draft = state / _LEDGER, target.with_name((target.name or "root") + ".new")
    with closing(Ledger.read(ledger)) as found:
        owner, budget, ended = found.owner, found.own_budget, found.ending_move()
    try:
        if ended is None:
            _check_place(state, target, draft, owner)
            nonce = secrets.token_hex(16)
            with closing(Ledger.open(ledger, owner, budget)) as old:
                shutil.rmtree(draft, ignore_errors=True)
                _copy(state, draft, f"{owner} {nonce}")
                _begin_new_ledger(old, draft / (_LEDGER + ".moving"), nonce)
                old.end(nonce, str(target))
            return _finish_move(draft, target)
        if ended[1] == str(target) and _mark(draft) == f"{owner} {ended[0]}":
            return _finish_move(draft, target)
    except OSError as error:
        raise LedgerError(
            f"{target}: cannot be written ({error.strerror or error}): make room, or name another place; "
            f"`sottovoce ledger show --state {state}` says whether the device is still there"
        ) from error
    raise LedgerError(f"{ledger}: this ledger was moved to {ended[1]} earlier, and is closed here for good")


def _check_place(state: Path, target: Path, draft: Path, owner: str) -> None:
    """Refuse a place that is taken, or lies inside the old one.

    Raises:
        LedgerError: if it is.
    """
    if target.is_relative_to(state) or state.is_relative_to(target):
        raise LedgerError(
            f"{target}: one of the two directories is inside the other; name one that is separate from {state}"
        )
    if target.exists():
        raise LedgerError(f"{target}: already exists; name a directory that does not exist yet")
    mark = _mark(draft)
    if draft.exists() and (mark is None or mark.split()[0] != owner):
        raise LedgerError(
            f"{draft}: already exists and is not this device's: another device's move may be waiting to be finished; "
            "name another place"
        )


def _mark(draft: Path) -> str | None:
    """Return the mark of the move that made a draft; None if no move made it."""
    mark = draft / _MOVING
    return mark.read_text() if mark.is_file() else None


def _copy(state: Path, draft: Path, mark: str) -> None:
    """Copy the state directory, without the ledger and the files of a running process."""

    def ignored_names(directory: str, names: list[str]) -> set[str]:
        top = Path(directory) == state
        return {name for name in names if name.endswith(_STAYS) or (top and name.startswith(_LEDGER))}

    draft.mkdir(mode=0o700, parents=True)
    (draft / _MOVING).write_text(mark)
    shutil.copytree(state, draft, ignore=ignored_names, symlinks=True, dirs_exist_ok=True)
    for place, _, files in os.walk(draft):
        for path in (Path(place), *(Path(place) / name for name in files)):
            if not path.is_symlink():
                sync(path)


def _begin_new_ledger(old: Ledger, path: Path, nonce: str) -> None:
    """Create the new ledger, under a name that no program opens yet."""
    old.copy(path)
    with closing(Ledger.open(path, old.owner, old.own_budget)) as new:
        new.charge(hashlib.sha256(b"sottovoce/moved/v1|" + nonce.encode()).digest(), Moved(nonce))
    sync(path)
    path.with_name(path.name + ".lock").unlink(missing_ok=True)


def _finish_move(draft: Path, target: Path) -> Path:
    """Give the new ledger and the new place their final names; safe to repeat after a power cut."""
    moving = draft / (_LEDGER + ".moving")
    if moving.exists():
        rename(moving, draft / _LEDGER)
    rename(draft, target)
    (target / _MOVING).unlink(missing_ok=True)
    return target / _LEDGER
