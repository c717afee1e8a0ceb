"""A fleet's own certificate authority, which is created once and stays offline.

The authority is needed only to enrol devices, to renew their certificates, and to sign the fleet's own documents. Its
directory contains `ca.pem`, which is copied to every device, and `ca.key`, which is unencrypted and has mode 0600.
Anyone who can read `ca.key` can add any device to the fleet. Store that directory on a medium that none of the fleet's
devices can read. Store `spare`, which contains the replacement key in case `ca.key` is lost or stolen, on another
medium.
"""

from collections.abc import Container
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from sottovoce.errors import IdentityError
from sottovoce.fleet.authority import FleetAuthority
from sottovoce.fleet.certificates import Validity, device_certificate, fleet_certificate, read_fleet_name
from sottovoce.fleet.files import exclusive, make_private_directory, read, read_private, write_new
from sottovoce.fleet.fleet_keys import Anchors, KeyChange, decode_changes, read_anchors, retired_keys
from sottovoce.fleet.identity import FLEET_CERTIFICATE, FLEET_KEYS, Identity, load
from sottovoce.fleet.keys import decode_tls_key, encode_private_key
from sottovoce.fleet.new_device import DeviceKeys, write_identity

from sottovoce_operator.fleet.request import Request, read_request
from sottovoce_operator.fleet.staging import finish_move

FLEET_KEY = "ca.key"
SPARE = "spare"
"""Name of the spare key's directory, which is inside the fleet's directory until someone moves it elsewhere."""
_FLEET_DAYS = 3650
_DEVICE_DAYS = 90


@dataclass(frozen=True, slots=True, eq=False)
class Fleet:
    """A fleet's authority with its private key, so it can issue certificates.

    Attributes:
        name: the fleet's name.
        certificate: the fleet's certificate, which every device trusts.
        key: the fleet's private key.
        spare: certificate of the spare key; None in a fleet created by an older version.
        changes: all changes of the fleet's keys, oldest first.
    """

    name: str
    certificate: x509.Certificate
    key: EllipticCurvePrivateKey = field(repr=False)
    spare: x509.Certificate | None = None
    changes: tuple[KeyChange, ...] = ()

    @property
    def authority(self) -> FleetAuthority:
        """The fleet's public authority, as every device uses it."""
        return FleetAuthority(self.certificate, self.spare, retired_keys(self.changes))

    def sign(self, message: bytes) -> bytes:
        """Return the fleet's ECDSA signature, with SHA-256, of a message that begins with its own domain string."""
        return self.key.sign(message, ECDSA(SHA256()))

    def issue(self, request: Request, validity: Validity | None = None) -> bytes:
        """Return a certificate in PEM for a device that the operator admits; valid for ninety days by default."""
        validity = validity or Validity.from_now(_DEVICE_DAYS)
        certificate = device_certificate(self.certificate, self.key, request.tls_key, request.binding, validity)
        return certificate.public_bytes(Encoding.PEM)

    def renew(self, request: Request, revoked_ids: Container[str], validity: Validity | None = None) -> bytes:
        """Return a new certificate in PEM for a device of this fleet, even if its current certificate has expired.

        Args:
            request: a request that includes the current certificate.
            revoked_ids: node ids of revoked devices.
            validity: validity of the new certificate; defaults to ninety days from now.

        Raises:
            IdentityError: if the request has no current certificate, or the device does not belong to this fleet or is
                revoked.
        """
        if request.current is None:
            raise IdentityError(
                "the request does not include the current certificate; create it with `sottovoce fleet renew --request`"
            )
        source = f"the current certificate of {request.node_id}"
        if self.authority.verify(request.current, None, source).node_id != request.node_id:
            raise IdentityError(f"{source} belongs to a different device; create a new request on the right device")
        if request.node_id in revoked_ids:
            raise IdentityError(
                f"{request.node_id} is revoked and cannot receive a new certificate; enrol a new device instead"
            )
        return self.issue(request, validity)


def create_fleet(directory: Path, name: str, *, validity: Validity | None = None) -> Fleet:
    """Create a new fleet: its key, its spare key, and their certificates.

    Args:
        directory: directory to write to, created if missing.
        name: the fleet's name: 1 to 40 lowercase letters, digits and inner hyphens.
        validity: validity of the fleet's certificates; defaults to ten years from now.

    Raises:
        IdentityError: if the name is not valid, or the directory already contains a fleet or cannot be written.
    """
    key, certificate = new_key(name, validity)
    spare_key, spare = new_key(name, validity)
    make_private_directory(directory)
    make_private_directory(directory / SPARE)
    anchors = Anchors(certificate, spare).pem
    with exclusive(directory):
        write_new({directory / SPARE / FLEET_KEY: encode_private_key(spare_key)})
        write_new({directory / FLEET_KEY: encode_private_key(key), directory / FLEET_CERTIFICATE: anchors})
    return Fleet(name, certificate, key, spare)


def new_key(name: str, validity: Validity | None = None) -> tuple[EllipticCurvePrivateKey, x509.Certificate]:
    """Generate a fleet key and its self-signed certificate, which is valid for ten years by default."""
    key = generate_private_key(SECP256R1())
    return key, fleet_certificate(name, key, validity or Validity.from_now(_FLEET_DAYS))


def open_fleet(directory: Path) -> Fleet:
    """Open the fleet in a directory that `create_fleet` wrote.

    Raises:
        IdentityError: if a file is missing, malformed, or private but accessible to other users, or the key and the
            certificate do not match.
    """
    finish_move(directory)
    key_file, certificate_file = directory / FLEET_KEY, directory / FLEET_CERTIFICATE
    if not key_file.exists():
        raise IdentityError(
            f"{key_file} is missing; restore it from a backup, create a fleet with `sottovoce fleet init`, or "
            "pass the fleet's directory"
        )
    with exclusive(directory):  # a rotation replaces all three files
        key = decode_tls_key(read_private(key_file), key_file)
        anchors = read_anchors(read(certificate_file), certificate_file)
        if anchors.current.public_key() != key.public_key():
            raise IdentityError(f"{certificate_file} does not belong to {key_file}; restore both from the same backup")
        changes_file = directory / FLEET_KEYS
        changes = decode_changes(read(changes_file), changes_file) if changes_file.exists() else ()
    return Fleet(read_fleet_name(anchors.current), anchors.current, key, anchors.spare, changes)


def enrol(fleet: Fleet, directory: Path, *, validity: Validity | None = None) -> Identity:
    """Create a new device's identity: generate its keys, and issue a certificate from the fleet.

    Args:
        fleet: the fleet's authority, with its key.
        directory: directory to write to, created if missing.
        validity: validity of the device's certificate; defaults to ninety days from now.

    Returns:
        The identity, as loaded at the start of its validity.

    Raises:
        IdentityError: if the directory already contains an identity, is accessible to other users or cannot be written,
            or the fleet's certificate is not valid when the device's certificate starts.
    """
    validity = validity or Validity.from_now(_DEVICE_DAYS)
    keys = DeviceKeys.generate()
    certificate = fleet.issue(read_request(keys.request(), "the request"), validity)
    write_identity(directory, keys, certificate, fleet_certificate=fleet.authority.anchors.pem)
    return load(directory, validity.not_before)
