"""Renewal of a device's certificate: the same keys, a later end.

The TLS key is kept. It is stored beside the identity key, which cannot change, and is readable by the same user, so a
new one would lock no one out. So only one file changes, in one step; a power cut leaves the old certificate or the new.
"""

import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sottovoce.errors import IdentityError
from sottovoce.identity.files import read, replace
from sottovoce.identity.identity import TLS_CERTIFICATE, Identity, load
from sottovoce.identity.new_device import DeviceKeys, first_certificate
from sottovoce.identity.verification import decode_certificate

_JITTER = 1 / 12  # share of a lifetime, added to two thirds of it


def renewal_due(identity: Identity) -> datetime:
    """Return the time to renew a certificate: after two thirds of its lifetime, and up to a twelfth more.

    The extra time is derived from the device and the certificate, so a fleet enrolled within an hour does not renew
    within an hour, and a restart does not change it. After a change of the fleet's keys, the time depends on how long
    the previous key still holds: until then, devices that were off meanwhile know no other key.
    """
    begun = identity.not_before if identity.retired is None else identity.retired.since
    lifetime = identity.not_after - begun
    digest = hashlib.sha256(identity.certificate_der).digest()
    share = 2 / 3 + _JITTER * int.from_bytes(digest[:4], "big") / 2**32
    return begun + lifetime * share


def renewal_request(directory: Path) -> bytes:
    """Return a request to renew the certificate of an identity directory, PEM; the certificate may have expired.

    Raises:
        IdentityError: if the directory holds no identity, or a pinned one.
    """
    present = read(directory / TLS_CERTIFICATE)
    identity = load(directory, dated=False)
    if identity.mode == "pinned":
        raise IdentityError(f"{directory}: a pinned device's certificate is never renewed: let a new device join")
    return DeviceKeys.read(directory).request(fleet=identity.fleet, present=present)


def install_certificate(directory: Path, pem: bytes, source: object, now: datetime | None = None) -> datetime:
    """Replace the present certificate by a renewed one, in one step; return when the new one expires.

    Args:
        directory: the identity directory.
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
