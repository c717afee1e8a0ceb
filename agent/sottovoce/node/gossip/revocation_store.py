"""Storage of a fleet's revocation list in a directory.

Neither this module nor its imports use a network, because a separate vault reads the list too.
"""

from collections.abc import Sequence
from pathlib import Path

from sottovoce.errors import IdentityError, MessageRefused
from sottovoce.fleet.authority import Authority
from sottovoce.fleet.files import exclusive, read, replace
from sottovoce.fleet.fleet_keys import KeyChange, encode_changes
from sottovoce.fleet.identity import FLEET_KEYS
from sottovoce.net.wire.revocation import RevocationList, decode_list, encode_list

NAME = "revoked"


def read_list(raw: bytes, authority: Authority, source: object) -> RevocationList:
    """Return the verified revocation list in a file's content; `source` identifies the file in error messages.

    Raises:
        IdentityError: if the list is corrupt, belongs to another fleet, or is not signed by this fleet.
    """
    try:
        revoked = decode_list(raw)
    except MessageRefused as error:
        raise IdentityError(
            f"{source} is not a valid revocation list ({error}); install it again with `sottovoce fleet revoke "
            "--state DIR --install FILE`"
        ) from error
    revoked.verify(authority)
    return revoked


def load_revocation_list(state: Path, authority: Authority) -> RevocationList | None:
    """Return the revocation list in a state directory, or None if none has arrived yet.

    Raises:
        IdentityError: if the list cannot be read, is corrupt, or does not belong to this fleet.
    """
    path = state / NAME
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise IdentityError(f"cannot read {path}: {error.strerror}; fix the file's owner or mode") from error
    return read_list(raw, authority, path)


def store_revocation_list(state: Path, revoked: RevocationList, authority: Authority) -> bool:
    """Store a verified list in a state directory unless it has that list or a newer one; return whether it was stored.

    Raises:
        IdentityError: if the list cannot be written, the existing file is corrupt, or it contains other devices under
            the same version.
    """
    with exclusive(state):
        stored_list = load_revocation_list(state, authority)
        if stored_list is not None and stored_list.rank >= revoked.rank:
            if stored_list.rank == revoked.rank and stored_list.node_ids != revoked.node_ids:
                raise IdentityError(
                    f"{state / NAME} is another list with the same version, {revoked.version}: two copies of the "
                    "fleet's directory have signed revocations. Delete one copy, and revoke the devices of both lists "
                    "in the other until its version is higher"
                )
            return False
        replace(state / NAME, encode_list(revoked))
    return True


def store_key_changes(directory: Path, changes: Sequence[KeyChange]) -> bool:
    """Store verified changes of a fleet's keys in the directory of its certificate; return whether any was new.

    Raises:
        IdentityError: if the changes cannot be written.
    """
    path, keys = directory / FLEET_KEYS, encode_changes(changes)
    with exclusive(directory):
        if not keys or (path.exists() and read(path) == keys):
            return False
        replace(path, keys)
    return True


class StoredRevocations:
    """A callable that returns the devices on a directory's revocation list; it rereads the file after a change.

    Args:
        directory: directory that contains the list.
        authority: the fleet's authority.
    """

    def __init__(self, directory: Path, authority: Authority) -> None:
        self._directory, self._authority = directory, authority
        self._stamp: tuple[int, int, int] | None = None
        self._node_ids: frozenset[str] = frozenset()

    def __call__(self) -> frozenset[str]:
        """Return the node ids of the revoked devices.

        Raises:
            MessageRefused: if the list cannot be read, in which case no device can be trusted.
        """
        try:
            stat = (self._directory / NAME).stat()
            stamp = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        except FileNotFoundError:
            stamp = (0, 0, 0)
        except OSError as error:
            raise MessageRefused("revoked", f"cannot read the revocation list: {error.strerror}") from error
        if stamp != self._stamp:
            try:
                stored_list = load_revocation_list(self._directory, self._authority)
            except IdentityError as error:
                raise MessageRefused("revoked", str(error)) from error
            self._node_ids, self._stamp = frozenset() if stored_list is None else frozenset(stored_list.node_ids), stamp
        return self._node_ids
