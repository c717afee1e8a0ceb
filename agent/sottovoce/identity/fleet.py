"""A fleet's authority: made once, kept offline, needed only to enrol a device or to renew its certificate.

Its directory holds `ca.pem`, which every device gets a copy of, and `ca.key`, unencrypted and mode 0600: whoever
reads `ca.key` can let any device into the fleet. Keep that directory on a medium that no device of the fleet can read.
"""

from collections.abc import Container
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding

from sottovoce.errors import IdentityError
from sottovoce.identity.authority import FleetAuthority
from sottovoce.identity.certificates import Validity, device_certificate, fleet_certificate, fleet_of
from sottovoce.identity.files import make_private_directory, read, read_private, write_new
from sottovoce.identity.identity import FLEET_CERTIFICATE, Identity, load
from sottovoce.identity.keys import decode_tls_key, encode_private_key
from sottovoce.identity.new_device import DeviceKeys, write_identity
from sottovoce.identity.request import Request, read_request
from sottovoce.identity.verification import decode_fleet_certificate

_FLEET_KEY = "ca.key"
_FLEET_DAYS = 3650
_DEVICE_DAYS = 90


@dataclass(frozen=True, slots=True, eq=False)
class Fleet:
    """A fleet's authority, able to issue certificates.

    Attributes:
        name: the fleet's name.
        certificate: its certificate, which every device trusts.
        key: its private key.
    """

    name: str
    certificate: x509.Certificate
    key: EllipticCurvePrivateKey = field(repr=False)

    @property
    def authority(self) -> FleetAuthority:
        """What a device takes its word by."""
        return FleetAuthority(self.certificate)

    def sign(self, message: bytes) -> bytes:
        """The fleet's own signature, ECDSA with SHA-256, of a message that begins with its own domain string."""
        return self.key.sign(message, ECDSA(SHA256()))

    def issue(self, request: Request, validity: Validity | None = None) -> bytes:
        """The certificate of a device that the operator lets in, PEM; for ninety days from now by default."""
        validity = validity or Validity.from_now(_DEVICE_DAYS)
        certificate = device_certificate(self.certificate, self.key, request.tls_key, request.binding, validity)
        return certificate.public_bytes(Encoding.PEM)

    def renew(self, request: Request, revoked: Container[str], validity: Validity | None = None) -> bytes:
        """A new certificate for a device of this fleet, whose present one may be over, PEM.

        Args:
            request: with the present certificate beside it.
            revoked: node ids that get none.
            validity: ninety days from now by default.

        Raises:
            IdentityError: the device is not of this fleet, or is revoked.
        """
        if request.present is None:
            raise IdentityError(
                "the request has no certificate beside it: make it with `sottovoce fleet renew --request`"
            )
        source = f"the present certificate of {request.node_id}"
        if self.authority.verify(request.present, None, source).node_id != request.node_id:
            raise IdentityError(f"{source} is another device's: make the request again on the device")
        if request.node_id in revoked:
            raise IdentityError(f"{request.node_id} is revoked and gets no new certificate: let a new device join")
        return self.issue(request, validity)


def create_fleet(directory: Path, name: str, *, validity: Validity | None = None) -> Fleet:
    """Makes a fleet's key and certificate.

    Args:
        directory: where they are written; made if it is not there.
        name: 1 to 40 lowercase letters, digits and inner hyphens.
        validity: when the fleet's certificate holds; ten years from now by default.

    Raises:
        IdentityError: the name cannot name a fleet, or the directory holds one or cannot be written.
    """
    key = generate_private_key(SECP256R1())
    certificate = fleet_certificate(name, key, validity or Validity.from_now(_FLEET_DAYS))
    make_private_directory(directory)
    write_new(
        {
            directory / _FLEET_KEY: encode_private_key(key),
            directory / FLEET_CERTIFICATE: certificate.public_bytes(Encoding.PEM),
        }
    )
    return Fleet(name, certificate, key)


def open_fleet(directory: Path) -> Fleet:
    """Opens the authority that `create_fleet` wrote.

    Raises:
        IdentityError: a file is missing, malformed or open to other users, or the two do not belong together.
    """
    key_file, certificate_file = directory / _FLEET_KEY, directory / FLEET_CERTIFICATE
    if not key_file.exists():
        raise IdentityError(
            f"{key_file} is missing: restore it, make a fleet with `sottovoce fleet init`, or name its directory"
        )
    key = decode_tls_key(read_private(key_file), key_file)
    certificate = decode_fleet_certificate(read(certificate_file), certificate_file)
    if certificate.public_key() != key.public_key():
        raise IdentityError(f"{certificate_file} is not the certificate of {key_file}: restore both from their backup")
    return Fleet(fleet_of(certificate), certificate, key)


def enrol(fleet: Fleet, directory: Path, *, validity: Validity | None = None) -> Identity:
    """Makes the identity of a new device: its keys, and its certificate from the fleet.

    Args:
        fleet: the authority.
        directory: where it is written; made if it is not there.
        validity: when the device's certificate holds; ninety days from now by default.

    Returns:
        The identity as loaded at the beginning of its validity.

    Raises:
        IdentityError: the directory holds an identity, is open to other users or cannot be written, or the fleet's
            own certificate does not hold when the device's begins.
    """
    validity = validity or Validity.from_now(_DEVICE_DAYS)
    keys = DeviceKeys.generate()
    certificate = fleet.issue(read_request(keys.request(), "the request"), validity)
    write_identity(directory, keys, certificate, fleet_certificate=fleet.authority.roots)
    return load(directory, validity.not_before)
