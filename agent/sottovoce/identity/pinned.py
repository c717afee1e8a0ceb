"""Pinned devices: a few devices that trust one another by id, each self-signed and without an authority."""

from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding

from sottovoce.errors import IdentityError
from sottovoce.identity.authority import verify_self_signed
from sottovoce.identity.binding import bind
from sottovoce.identity.certificates import Validity, self_signed_certificate
from sottovoce.identity.files import make_private_directory, replace, write_new
from sottovoce.identity.identity import DEVICE_KEY, PINS, TLS_CERTIFICATE, TLS_KEY, load
from sottovoce.identity.names import check_fleet_name
from sottovoce.identity.new_device import DeviceKeys
from sottovoce.identity.verification import decode_certificate

MAX_PINS = 200
_PINNED_DAYS = 3650


def enrol_pinned(directory: Path, fleet: str, validity: Validity | None = None) -> str:
    """Write the identity of a device that others identify by its id alone; return the id.

    Args:
        directory: directory to write to, created if missing.
        fleet: name of the fleet.
        validity: validity of its certificate; ten years from now by default, because it is never renewed.

    Raises:
        IdentityError: if the fleet cannot have this name, or the directory holds an identity or cannot be written.
    """
    check_fleet_name(fleet)
    keys = DeviceKeys.generate()
    binding = bind(keys.device, keys.tls.public_key())
    certificate = self_signed_certificate(fleet, keys.tls, binding, validity or Validity.from_now(_PINNED_DAYS))
    device, tls = keys.encoded()
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
    """Store another device's certificate beside this device's identity; return the id of that device.

    The certificate may come by any way: it is believed only as long as its id is listed under transport.peers, and
    only that device can have made it.

    Args:
        directory: this device's identity.
        certificate: PEM.
        source: name of the certificate in the error.

    Raises:
        IdentityError: if this device is not pinned, the certificate is not of such a device of the same fleet, or there
            are too many.
    """
    identity = load(directory, dated=False)
    if identity.mode != "pinned":
        raise IdentityError(f"{directory} belongs to a device whose fleet has a CA: it pins no device")
    other = decode_certificate(certificate, source)
    node = verify_self_signed(other, identity.fleet, None, source).node_id
    if node == identity.node_id:
        raise IdentityError(f"{source} is the certificate of this device itself: give another device's")
    path = directory / PINS / f"{node}.pem"
    if not path.exists() and len(list(path.parent.glob("*.pem"))) >= MAX_PINS:
        raise IdentityError(
            f"{path.parent} holds {MAX_PINS} devices, which is the limit: for more, make a fleet with a CA"
        )
    replace(path, other.public_bytes(Encoding.PEM))
    return node
