"""Moving house: a device goes on in another place, from the same ledger, and the old one has ended for good.

The order is what counts. All of the new place is on its disk, but for the ledger's name, before the old ledger ends;
and the new ledger has its name only after that. Whenever power fails, one of the two can be used or none, and the same
command goes on. The new ledger begins with an entry that costs nothing, by which its head is newer than any copy's:
from the first start on the keepers know.
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
_STAYS = (".sock", ".lock", "-wal", "-shm", ".new")


def move(state: Path, ledger: Path, target: Path) -> Path:
    """Move a device that is stopped.

    Args:
        state: its state directory.
        ledger: its ledger.
        target: a directory that is not there yet, which becomes the state directory.

    Returns:
        the ledger in its new place.

    Raises:
        LedgerError: the ledger is in use, missing or damaged, has ended, or the disk failed; where the old one has not
            ended, it goes on as it was.
    """
    draft = target.with_name(target.name + ".new")
    with closing(Ledger.read(ledger)) as found:
        owner, budget, ended = found.owner, found.budget, found.ended()
    if ended is not None:
        return _finished(ledger, draft, target, ended[0])
    if target.exists():
        raise LedgerError(f"{target}: there is something already; name a directory that is not there yet")
    try:
        with closing(Ledger.open(ledger, owner, budget)) as old:
            nonce = secrets.token_hex(16)
            shutil.rmtree(draft, ignore_errors=True)
            _copy(state, draft)
            _begun(old, draft / (_LEDGER + ".moving"), nonce)
            old.end(nonce, str(target.resolve()))
    except OSError as error:
        raise LedgerError(
            f"{target}: cannot be written ({error.strerror}); the device is where it was: make room, or name another "
            "place"
        ) from error
    return _finished(ledger, draft, target, nonce)


def _copy(state: Path, draft: Path) -> None:
    """Everything of the state directory but the ledger, and what belongs to a running process."""

    def stays(directory: str, names: list[str]) -> set[str]:
        top = Path(directory) == state
        return {name for name in names if name.endswith(_STAYS) or (top and name.startswith(_LEDGER))}

    shutil.copytree(state, draft, ignore=stays)
    for place, _, files in os.walk(draft):
        for name in files:
            sync(Path(place) / name)
        sync(Path(place))


def _begun(old: Ledger, path: Path, nonce: str) -> None:
    """The ledger that goes on, under a name by which nobody opens it yet."""
    old.copy(path)
    with closing(Ledger.open(path, old.owner, old.budget)) as new:
        new.charge(hashlib.sha256(b"sottovoce/moved/v1|" + nonce.encode()).digest(), Moved(nonce))
    sync(path)
    path.with_name(path.name + ".lock").unlink(missing_ok=True)


def _finished(ledger: Path, draft: Path, target: Path, nonce: str) -> Path:
    """Give the new ledger its name, and the new place its own; again after a power cut."""
    new = target / _LEDGER
    if not new.exists() and draft.is_dir():
        moving = draft / (_LEDGER + ".moving")
        if moving.exists():
            _check(moving, nonce)
            rename(moving, draft / _LEDGER)
        rename(draft, target)
        return new
    raise LedgerError(f"{ledger}: this ledger was moved before, and has ended here for good")


def _check(moving: Path, nonce: str) -> None:
    with closing(Ledger.read(moving)) as found:
        *_, last = found.charges()
    if last[1] != Moved(nonce).terms:
        raise LedgerError(f"{moving}: this is not the ledger that was moved; name the directory of the first attempt")
