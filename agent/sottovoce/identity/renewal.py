"""Renewing a device's certificate: the same keys, a later end.

The TLS key stays. It lies beside the identity key, which cannot change, for the same user to read: a new one would
lock no one out. So one file changes, in one step, and a power cut leaves the old certificate or the new one.
"""

import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sottovoce.errors import IdentityError
from sottovoce.identity.files import read, replace
from sottovoce.identity.identity import TLS_CERTIFICATE, Identity, load
from sottovoce.identity.new_device import DeviceKeys, first_certificate
from sottovoce.identity.verification import decode_certificate

_JITTER = 1 / 12  # of a lifetime, after two thirds of it


def renewal_due(identity: Identity) -> datetime:
    """The time to renew a certificate: two thirds of its lifetime, and up to a twelfth more.

    How much more follows from the device and the certificate, so that a fleet made in one hour does not come back in
    one hour, and a restart changes nothing. After a change of the fleet's keys the time goes by how long the key before
    still holds: until then devices that were off meanwhile know no other.
    """
    begun = identity.not_before if identity.retired is None else identity.retired.since
    lifetime = identity.not_after - begun
    digest = hashlib.sha256(identity.certificate_der).digest()
    share = 2 / 3 + _JITTER * int.from_bytes(digest[:4], "big") / 2**32
    return begun + lifetime * share


def renewal_request(directory: Path) -> bytes:
    """A request to renew the certificate of an identity directory, PEM. It need not hold any more.

    Raises:
        IdentityError: if the directory holds no identity, or a pinned one.
    """
    present = read(directory / TLS_CERTIFICATE)
    identity = load(directory, dated=False)
    if identity.mode == "pinned":
        raise IdentityError(f"{directory}: a pinned device's certificate is never renewed: let a new device join")
    return DeviceKeys.read(directory).request(fleet=identity.fleet, present=present)


def install_certificate(directory: Path, pem: bytes, source: object, now: datetime | None = None) -> datetime:
    """Puts a renewed certificate in the place of the present one, in one step; returns when it ends.

    Args:
        directory: the identity's.
        pem: as the authority issued it.
        source: names it in the error.
        now: an aware datetime; the clock's by default.

    Raises:
        IdentityError: if it does not belong to this device and fleet, does not hold now, or ends no later than the
            present one.
    """
    path = directory / TLS_CERTIFICATE
    present = decode_certificate(read(path), path)
    identity = load(directory, dated=False)
    if identity.mode == "external":
        pem = first_certificate(pem)
    renewed = decode_certificate(pem, source)
    subject = identity.authority.verify(renewed, now or datetime.now(UTC), source)
    if subject.node_id != identity.node_id or renewed.public_key() != present.public_key():
        raise IdentityError(f"{source} does not belong to this device ({identity.node_id}): make a new request here")
    if renewed.not_valid_after_utc - present.not_valid_after_utc < timedelta(0):
        raise IdentityError(f"{source} ends before the present certificate: make a new request")
    replace(path, pem)
    return subject.not_after
