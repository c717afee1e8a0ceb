"""Pinned devices: a small group of devices with self-signed certificates that trust one another by id, without a CA."""

from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding

from sottovoce.errors import IdentityError
from sottovoce.fleet.authority import verify_self_signed
from sottovoce.fleet.binding import make_binding
from sottovoce.fleet.certificates import Validity, self_signed_certificate
from sottovoce.fleet.files import exclusive, make_private_directory, replace, write_new
from sottovoce.fleet.identity import DEVICE_KEY, PINS, TLS_CERTIFICATE, TLS_KEY, load
from sottovoce.fleet.names import check_fleet_name
from sottovoce.fleet.new_device import DeviceKeys
from sottovoce.fleet.verification import decode_certificate

MAX_PINS = 200
_PINNED_DAYS = 3650


def enrol_pinned(directory: Path, fleet: str, validity: Validity | None = None) -> str:
    """Write the identity of a new pinned device and return its id, by which other devices identify it.

    Args:
        directory: directory to write to, created if missing.
        fleet: the fleet's name.
        validity: validity of the device's certificate; defaults to ten years from now, because it is never renewed.

    Raises:
        IdentityError: if the fleet name is not valid, or the directory already contains an identity or cannot be
            written.
    """
    check_fleet_name(fleet)
    keys = DeviceKeys.generate()
    binding = make_binding(keys.device, keys.tls.public_key())
    certificate = self_signed_certificate(fleet, keys.tls, binding, validity or Validity.from_now(_PINNED_DAYS))
    device, tls = keys.to_pem()
    make_private_directory(directory)
    write_new(
        {
            directory / DEVICE_KEY: device,
            directory / TLS_KEY: tls,
            directory / TLS_CERTIFICATE: certificate.public_bytes(Encoding.PEM),
        }
    )
    make_private_directory(directory / PINS)
    return keys.node_id


def pin(directory: Path, certificate: bytes, source: object) -> str:
    """Store another pinned device's certificate in this device's identity directory, and return that device's id.

    The certificate may arrive through any channel. It is trusted only while its device's id is listed under
    transport.peers, and only that device can have made it.

    Args:
        directory: this device's identity directory.
        certificate: the other device's certificate, PEM.
        source: what to call the certificate in error messages.

    Raises:
        IdentityError: if this device is not pinned, the certificate does not belong to a pinned device of the same
            fleet, or too many devices are pinned already.
    """
    identity = load(directory, check_dates=False)
    if identity.mode != "pinned":
        raise IdentityError(
            f"{directory} belongs to a device whose fleet has a CA, but only a pinned device can pin other devices"
        )
    peer_certificate = decode_certificate(certificate, source)
    peer_id = verify_self_signed(peer_certificate, identity.fleet, None, source).node_id
    if peer_id == identity.node_id:
        raise IdentityError(f"{source} is this device's own certificate; pass another device's certificate")
    path = directory / PINS / f"{peer_id}.pem"
    with exclusive(path.parent):
        if not path.exists() and len(list(path.parent.glob("*.pem"))) >= MAX_PINS:
            raise IdentityError(
                f"{path.parent} already contains {MAX_PINS} devices, which is the limit; for more devices, create a "
                "fleet with a CA"
            )
        replace(path, peer_certificate.public_bytes(Encoding.PEM))
    return peer_id
