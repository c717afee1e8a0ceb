"""Storage of a fleet's revocation list in a directory.

Neither this module nor its imports use a network: a separate vault reads the list, too.
"""

import time
from collections.abc import Collection, Sequence
from pathlib import Path

from sottovoce.errors import IdentityError, MessageRefused
from sottovoce.identity import Fleet
from sottovoce.identity.authority import Authority
from sottovoce.identity.files import read, replace
from sottovoce.identity.fleet_keys import KeyChange, encode_changes
from sottovoce.identity.identity import FLEET_KEYS
from sottovoce.wire.revocation import RevocationList, decode_list, encode_list

NAME = "revoked"


def read_list(raw: bytes, authority: Authority, source: object) -> RevocationList:
    """Return a list from a file, verified; `source` names it in the error.

    Raises:
        IdentityError: if it is damaged, belongs to another fleet, or is not signed by this fleet.
    """
    try:
        revoked = decode_list(raw)
    except MessageRefused as error:
        raise IdentityError(
            f"{source} is not a complete revocation list ({error}): install it again with `sottovoce fleet revoke "
            "--state DIR --install FILE`"
        ) from error
    revoked.verify(authority)
    return revoked


def load_revocation_list(state: Path, authority: Authority) -> RevocationList | None:
    """Return the list in a state directory; None if none has come yet.

    Raises:
        IdentityError: if it cannot be read, is damaged, or does not belong to this fleet.
    """
    path = state / NAME
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise IdentityError(f"{path} cannot be read: {error.strerror}; fix its owner or mode") from error
    return read_list(raw, authority, path)


def store_revocation_list(state: Path, revoked: RevocationList, authority: Authority) -> bool:
    """Store a verified list in a state directory unless it or a newer list is there; return whether it was stored.

    Raises:
        IdentityError: if it cannot be written, or the present file is damaged.
    """
    kept = load_revocation_list(state, authority)
    if kept is not None and kept.rank >= revoked.rank:
        return False
    replace(state / NAME, encode_list(revoked))
    return True


def keep_keys(directory: Path, changes: Sequence[KeyChange]) -> bool:
    """Store verified changes of a fleet's keys beside its certificate; return whether any was new.

    Raises:
        IdentityError: if they cannot be written.
    """
    path, keys = directory / FLEET_KEYS, encode_changes(changes)
    if not keys or (path.exists() and read(path) == keys):
        return False
    replace(path, keys)
    return True


def revoke(directory: Path, fleet: Fleet, node_ids: Collection[str]) -> RevocationList:
    """Sign a list with these devices and all that the fleet has revoked before, and keep it beside the fleet's key.

    Args:
        directory: the fleet's.
        fleet: opened with its key.
        node_ids: the devices to refuse in addition.

    Raises:
        IdentityError: if the list beside the key is damaged, or cannot be written.
        MessageRefused: if an id is malformed, or there are too many.
    """
    kept = load_revocation_list(directory, fleet.authority)
    before = () if kept is None else kept.node_ids
    revoked = RevocationList(
        fleet=fleet.name,
        version=1 if kept is None else kept.version + 1,
        issued=int(time.time()),
        node_ids=tuple(sorted({*before, *node_ids})),
        keys=fleet.changes,
    ).signed(fleet.sign)
    store_revocation_list(directory, revoked, fleet.authority)
    return revoked


class RevokedHere:
    """Devices on a directory's revocation list; the file is read again when it has changed.

    Args:
        directory: directory of the list.
        authority: authority of the fleet.
    """

    def __init__(self, directory: Path, authority: Authority) -> None:
        self._directory, self._authority = directory, authority
        self._seen: tuple[int, int, int] | None = None
        self._node_ids: frozenset[str] = frozenset()

    def __call__(self) -> frozenset[str]:
        """Return the node ids of the revoked devices.

        Raises:
            MessageRefused: if the list cannot be read, so that no device can be trusted.
        """
        try:
            found = (self._directory / NAME).stat()
            seen = (found.st_ino, found.st_mtime_ns, found.st_size)
        except FileNotFoundError:
            seen = (0, 0, 0)
        except OSError as error:
            raise MessageRefused("revoked", f"the list of revoked devices cannot be read: {error.strerror}") from error
        if seen != self._seen:
            try:
                kept = load_revocation_list(self._directory, self._authority)
            except IdentityError as error:
                raise MessageRefused("revoked", str(error)) from error
            self._node_ids, self._seen = frozenset() if kept is None else frozenset(kept.node_ids), seen
        return self._node_ids
