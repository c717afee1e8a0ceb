"""Rotation of a fleet's signing key, authorised by the present key or, if that key is lost, by the spare key."""

import time
from collections.abc import Callable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from msgspec import structs

from sottovoce.agent.fleet_tasks import NAME as TASK
from sottovoce.agent.fleet_tasks import kept_task
from sottovoce.agent.revoked import NAME as REVOKED
from sottovoce.agent.revoked import load_revocation_list
from sottovoce.errors import IdentityError
from sottovoce.identity.authority import FleetAuthority
from sottovoce.identity.files import make_private_directory, move_in, read, read_private, write_new
from sottovoce.identity.fleet import FLEET_KEY, SPARE, Fleet, new_key, open_fleet
from sottovoce.identity.fleet_keys import MAX_CHANGES, Anchors, KeyChange, decode_changes, encode_changes
from sottovoce.identity.identity import FLEET_CERTIFICATE, FLEET_KEYS, IDENTITY, fleet_authority
from sottovoce.identity.keys import decode_tls_key, encode_private_key
from sottovoce.wire.revocation import RevocationList, encode_list


def rotate(directory: Path, accept: int) -> Fleet:
    """Replace a fleet's signing key with a new one, authorised by the present key.

    Args:
        directory: the fleet's directory, with its present key.
        accept: seconds for which certificates issued with the present key remain valid.

    Raises:
        IdentityError: if the directory is damaged or cannot be written, or there were too many key changes.
    """
    fleet = open_fleet(directory)
    key, certificate = new_key(fleet.name)
    spare_files: dict[str, bytes] = {}
    spare = fleet.spare
    if spare is None:  # a fleet created by an earlier version gets a spare key
        spare_key, spare = new_key(fleet.name)
        spare_files = {FLEET_KEY: encode_private_key(spare_key)}
    change = _make_key_change(fleet.certificate, Anchors(certificate, spare), accept, "current")
    changed = (*fleet.changes, change.signed(fleet.sign, fleet.certificate))
    return _write(directory, Fleet(fleet.name, certificate, key, spare, changed), fleet.authority, spare_files)


def rotate_by_spare(directory: Path, spare: Path, state: Path | None, accept: int) -> Fleet:
    """Replace a fleet's signing key with the spare key, without the present key, and create another spare key.

    Args:
        directory: the fleet's directory, which is created if it is lost.
        spare: directory of the spare key.
        state: state directory of any device of the fleet, with the fleet's signed documents; needed if the fleet's
            directory is lost.
        accept: seconds for which certificates issued with the present key remain valid.

    Raises:
        IdentityError: if a file is missing or damaged, the key is not the spare key, or there were too many key
            changes.
    """
    source = directory
    if not (directory / FLEET_CERTIFICATE).exists():
        if state is None:
            raise IdentityError(
                f"{directory} does not contain {FLEET_CERTIFICATE}; restore the file from a backup, or specify "
                "any device's state directory with --state"
            )
        make_private_directory(directory)
        source = state / IDENTITY
    authority, changes = fleet_authority(source), _read_key_changes(source)
    key = decode_tls_key(read_private(spare / FLEET_KEY), spare / FLEET_KEY)
    if authority.spare is None or authority.spare.public_key() != key.public_key():
        raise IdentityError(
            f"{spare / FLEET_KEY} is not the spare key of fleet {authority.fleet!r}; specify the directory that "
            "contains it"
        )
    new_spare_key, new_spare = new_key(authority.fleet)
    change = _make_key_change(authority.certificate, Anchors(authority.spare, new_spare), accept, "spare")
    changed = (*changes, change.signed(_signer(key), authority.spare))
    fleet = Fleet(authority.fleet, authority.spare, key, new_spare, changed)
    known = directory if source is directory else state or directory
    return _write(directory, fleet, authority, {FLEET_KEY: encode_private_key(new_spare_key)}, known)


def _make_key_change(before: x509.Certificate, after: Anchors, accept: int, by: str) -> KeyChange:
    now = int(time.time())
    pem = {"before": before, "current": after.current, "spare": after.spare}
    words = {name: one.public_bytes(Encoding.PEM).decode() for name, one in pem.items() if one is not None}
    return KeyChange(since=now, until=now + accept, by=by, **words)  # type: ignore[arg-type]


def _write(
    directory: Path, fleet: Fleet, before: FleetAuthority, spare_files: dict[str, bytes], known: Path | None = None
) -> Fleet:
    """Write the new key, and the revocation list and the task signed with it; write either all of them or none."""
    if len(fleet.changes) > MAX_CHANGES:
        raise IdentityError(
            f"fleet {fleet.name!r} has changed its keys {MAX_CHANGES} times, which is the limit; create a new "
            "fleet and enrol the devices again"
        )
    known = known or directory
    revoked, task = load_revocation_list(known, before), kept_task(known, before)
    listed = RevocationList(
        fleet=fleet.name,
        version=1 if revoked is None else revoked.version + 1,
        issued=int(time.time()),
        node_ids=() if revoked is None else revoked.node_ids,
        keys=fleet.changes,
    ).signed(fleet.sign)
    files = {
        FLEET_KEY: encode_private_key(fleet.key),
        FLEET_CERTIFICATE: Anchors(fleet.certificate, fleet.spare).pem,
        FLEET_KEYS: encode_changes(fleet.changes),
        REVOKED: encode_list(listed),
    }
    if task is not None:
        files[TASK] = structs.replace(task, keys=fleet.changes, signature="").signed(fleet.sign).encoded
    if spare_files:
        if (directory / SPARE).exists() and any((directory / SPARE).iterdir()):
            raise IdentityError(f"{directory / SPARE} contains a key that would be overwritten; move it away first")
        make_private_directory(directory / SPARE)
        write_new({directory / SPARE / name: content for name, content in spare_files.items()})
    move_in(directory, files)
    return fleet


def _read_key_changes(source: Path) -> tuple[KeyChange, ...]:
    path = source / FLEET_KEYS
    return decode_changes(read(path), path) if path.exists() else ()


def _signer(key: EllipticCurvePrivateKey) -> Callable[[bytes], bytes]:
    return lambda message: key.sign(message, ECDSA(SHA256()))
