"""Renewal of a device's certificate: the new certificate has the same keys and a later expiry.

The TLS key does not change, because a new one would not lock anyone out: the TLS key is stored next to the identity
key, which cannot change, and the same user can read both. Only one file is replaced, atomically, so after a power cut,
the device has either the old certificate or the new one.
"""

import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sottovoce.errors import IdentityError
from sottovoce.fleet.files import exclusive, read, replace
from sottovoce.fleet.identity import TLS_CERTIFICATE, Identity, load
from sottovoce.fleet.new_device import DeviceKeys, first_certificate
from sottovoce.fleet.verification import decode_certificate

_JITTER = 1 / 12  # largest fraction of the lifetime by which a renewal is delayed beyond two thirds


def renewal_time(identity: Identity) -> datetime:
    """Return when to renew a certificate: after two thirds of its lifetime plus up to another twelfth.

    The extra time is derived from the certificate. Therefore, devices that were enrolled within an hour do not all
    renew within an hour, and a restart does not change the time. After a change of the fleet's keys, the time depends
    on how long the retired key's certificates remain valid, because devices that were off during the change know only
    that key.
    """
    start = identity.not_before if identity.retired is None else identity.retired.since
    lifetime = identity.not_after - start
    digest = hashlib.sha256(identity.certificate_der).digest()
    fraction = 2 / 3 + _JITTER * int.from_bytes(digest[:4], "big") / 2**32
    return start + lifetime * fraction


def make_renewal_request(directory: Path) -> bytes:
    """Return a request to renew the certificate in an identity directory, PEM; that certificate may have expired.

    Raises:
        IdentityError: if the directory contains no identity, or a pinned device's identity.
    """
    current = read(directory / TLS_CERTIFICATE)
    identity = load(directory, check_dates=False)
    if identity.mode == "pinned":
        raise IdentityError(f"{directory}: a pinned device's certificate cannot be renewed; enrol a new device instead")
    return DeviceKeys.read(directory).request(fleet=identity.fleet, current=current)


def install_certificate(directory: Path, pem: bytes, source: object, now: datetime | None = None) -> datetime:
    """Atomically replace the current certificate with a renewed one, and return when the new certificate expires.

    Args:
        directory: the identity directory.
        pem: the renewed certificate as issued by the authority, PEM.
        source: what to call the renewed certificate in error messages.
        now: an aware datetime; defaults to the current time.

    Raises:
        IdentityError: if the renewed certificate does not belong to this device and fleet, is not valid at `now`, or
            expires before the current certificate.
    """
    path = directory / TLS_CERTIFICATE
    with exclusive(directory):
        current = decode_certificate(read(path), path)
        identity = load(directory, check_dates=False)
        if identity.mode == "external":
            pem = first_certificate(pem)
        new_certificate = decode_certificate(pem, source)
        subject = identity.authority.verify(new_certificate, now or datetime.now(UTC), source)
        if subject.node_id != identity.node_id or new_certificate.public_key() != current.public_key():
            raise IdentityError(
                f"{source} does not belong to this device ({identity.node_id}); create a new request on this device"
            )
        if new_certificate.not_valid_after_utc - current.not_valid_after_utc < timedelta(0):
            raise IdentityError(f"{source} expires before the current certificate; create a new request")
        replace(path, pem)
    return subject.not_after
