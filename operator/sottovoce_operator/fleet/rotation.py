"""Rotation of a fleet's signing key, authorised by the current key or, if that key is lost, by the spare key."""

import time
from collections.abc import Callable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from msgspec import structs
from sottovoce.errors import IdentityError
from sottovoce.fleet.authority import FleetAuthority
from sottovoce.fleet.files import exclusive, make_private_directory, read, read_private, write_new
from sottovoce.fleet.fleet_keys import MAX_CHANGES, Anchors, KeyChange, decode_changes, encode_changes
from sottovoce.fleet.identity import FLEET_CERTIFICATE, FLEET_KEYS, IDENTITY, fleet_authority
from sottovoce.fleet.keys import decode_tls_key, encode_private_key
from sottovoce.fleet.signed_task import TASK_FILE as TASK, load_task
from sottovoce.net.wire.revocation import RevocationList, encode_list
from sottovoce.node.gossip.revocation_store import NAME as REVOKED, load_revocation_list

from sottovoce_operator.fleet.ca import FLEET_KEY, SPARE, Fleet, new_key, open_fleet
from sottovoce_operator.fleet.staging import write_files


def rotate(directory: Path, accept: int) -> Fleet:
    """Replace a fleet's signing key with a new one, authorised by the current key.

    Args:
        directory: the fleet's directory, with its current key.
        accept: seconds for which certificates issued with the current key remain valid.

    Raises:
        IdentityError: if the directory is corrupt or cannot be written, or there were too many key changes.
    """
    with exclusive(directory):
        fleet = open_fleet(directory)
        key, certificate = new_key(fleet.name)
        spare_files: dict[str, bytes] = {}
        spare = fleet.spare
        if spare is None:  # a fleet created by an earlier version gets a spare key
            spare_key, spare = new_key(fleet.name)
            spare_files = {FLEET_KEY: encode_private_key(spare_key)}
        change = _make_key_change(fleet.certificate, Anchors(certificate, spare), accept, "current")
        changes = (*fleet.changes, change.sign(fleet.sign, fleet.certificate))
        return _write_files(
            directory, Fleet(fleet.name, certificate, key, spare, changes), fleet.authority, spare_files
        )


def rotate_with_spare(directory: Path, spare: Path, state: Path | None, accept: int) -> Fleet:
    """Replace a fleet's signing key with its spare key, without needing the current key, and create a new spare key.

    Args:
        directory: the fleet's directory, which is created if it is lost.
        spare: directory of the spare key.
        state: state directory of any device of the fleet, with the fleet's signed documents; needed if the fleet's
            directory is lost.
        accept: seconds for which certificates issued with the current key remain valid.

    Raises:
        IdentityError: if a file is missing or corrupt, the key is not the spare key, or there were too many key
            changes.
    """
    if not (directory / FLEET_CERTIFICATE).exists():
        if state is None:
            raise IdentityError(
                f"{directory} does not contain {FLEET_CERTIFICATE}; restore the file from a backup, or specify "
                "any device's state directory with --state"
            )
        make_private_directory(directory)
    with exclusive(directory):
        is_lost = state is not None and not (directory / FLEET_CERTIFICATE).exists()
        documents = state if state is not None and is_lost else directory
        source = documents / IDENTITY if is_lost else directory
        authority, changes = fleet_authority(source), _read_key_changes(source)
        key = decode_tls_key(read_private(spare / FLEET_KEY), spare / FLEET_KEY)
        if authority.spare is None or authority.spare.public_key() != key.public_key():
            raise IdentityError(
                f"{spare / FLEET_KEY} is not the spare key of fleet {authority.fleet!r}; specify the directory that "
                "contains it"
            )
        new_spare_key, new_spare = new_key(authority.fleet)
        change = _make_key_change(authority.certificate, Anchors(authority.spare, new_spare), accept, "spare")
        all_changes = (*changes, change.sign(_make_signer(key), authority.spare))
        fleet = Fleet(authority.fleet, authority.spare, key, new_spare, all_changes)
        return _write_files(directory, fleet, authority, {FLEET_KEY: encode_private_key(new_spare_key)}, documents)


def _make_key_change(previous: x509.Certificate, anchors: Anchors, accept: int, signer_role: str) -> KeyChange:
    now = int(time.time())
    certificates = {"before": previous, "current": anchors.current, "spare": anchors.spare}
    pem_texts = {
        name: certificate.public_bytes(Encoding.PEM).decode()
        for name, certificate in certificates.items()
        if certificate is not None
    }
    return KeyChange(since=now, until=now + accept, by=signer_role, **pem_texts)  # type: ignore[arg-type]


def _write_files(
    directory: Path, fleet: Fleet, authority: FleetAuthority, spare_files: dict[str, bytes], source: Path | None = None
) -> Fleet:
    """Write the new key, and the revocation list and the task signed with it; write either all of them or none."""
    if len(fleet.changes) > MAX_CHANGES:
        raise IdentityError(
            f"fleet {fleet.name!r} has changed its keys {MAX_CHANGES} times, which is the limit; create a new "
            "fleet and enrol the devices again"
        )
    source = source or directory
    revoked, task = load_revocation_list(source, authority), load_task(source, authority)
    revocations = RevocationList(
        fleet=fleet.name,
        version=1 if revoked is None else revoked.version + 1,
        issued=int(time.time()),
        node_ids=() if revoked is None else revoked.node_ids,
        keys=fleet.changes,
    ).sign(fleet.sign)
    files = {
        FLEET_KEY: encode_private_key(fleet.key),
        FLEET_CERTIFICATE: Anchors(fleet.certificate, fleet.spare).pem,
        FLEET_KEYS: encode_changes(fleet.changes),
        REVOKED: encode_list(revocations),
    }
    if task is not None:
        files[TASK] = structs.replace(task, keys=fleet.changes, signature="").sign(fleet.sign).encoding
    if spare_files:
        if (directory / SPARE).exists() and any((directory / SPARE).iterdir()):
            raise IdentityError(f"{directory / SPARE} contains a key that would be overwritten; move it aside first")
        make_private_directory(directory / SPARE)
        write_new({directory / SPARE / name: content for name, content in spare_files.items()})
    write_files(directory, files)
    return fleet


def _read_key_changes(source: Path) -> tuple[KeyChange, ...]:
    path = source / FLEET_KEYS
    return decode_changes(read(path), path) if path.exists() else ()


def _make_signer(key: EllipticCurvePrivateKey) -> Callable[[bytes], bytes]:
    return lambda message: key.sign(message, ECDSA(SHA256()))
