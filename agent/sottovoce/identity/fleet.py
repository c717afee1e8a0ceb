"""Authority of a fleet: made once, kept offline, needed only to enrol a device or to renew its certificate.

Its directory holds `ca.pem`, which every device gets a copy of, and `ca.key`, unencrypted and mode 0600: anyone who
reads `ca.key` can let any device into the fleet. Keep that directory on a medium that no device of the fleet can read,
and `spare`, the key for the day on which this one is lost or stolen, on another.
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
from sottovoce.identity.files import finish_move, make_private_directory, read, read_private, write_new
from sottovoce.identity.fleet_keys import Anchors, KeyChange, decode_changes, read_anchors, retired_by
from sottovoce.identity.identity import FLEET_CERTIFICATE, FLEET_KEYS, Identity, load
from sottovoce.identity.keys import decode_tls_key, encode_private_key
from sottovoce.identity.new_device import DeviceKeys, write_identity
from sottovoce.identity.request import Request, read_request

FLEET_KEY = "ca.key"
SPARE = "spare"
"""Directory of the spare key, in a fleet's directory until it is moved elsewhere."""
_FLEET_DAYS = 3650
_DEVICE_DAYS = 90


@dataclass(frozen=True, slots=True, eq=False)
class Fleet:
    """Authority of a fleet, able to issue certificates.

    Attributes:
        name: the fleet's name.
        certificate: its certificate, which every device trusts.
        key: its private key.
        spare: certificate of its spare key; None in a fleet of earlier versions.
        changes: changes of its keys, from the first.
    """

    name: str
    certificate: x509.Certificate
    key: EllipticCurvePrivateKey = field(repr=False)
    spare: x509.Certificate | None = None
    changes: tuple[KeyChange, ...] = ()

    @property
    def authority(self) -> FleetAuthority:
        """The authority as a device sees it."""
        return FleetAuthority(self.certificate, self.spare, retired_by(self.changes))

    def sign(self, message: bytes) -> bytes:
        """Return the fleet's own signature, ECDSA with SHA-256, of a message that begins with its own domain string."""
        return self.key.sign(message, ECDSA(SHA256()))

    def issue(self, request: Request, validity: Validity | None = None) -> bytes:
        """Return the certificate of a device that the operator admits, PEM; for ninety days from now by default."""
        validity = validity or Validity.from_now(_DEVICE_DAYS)
        certificate = device_certificate(self.certificate, self.key, request.tls_key, request.binding, validity)
        return certificate.public_bytes(Encoding.PEM)

    def renew(self, request: Request, revoked: Container[str], validity: Validity | None = None) -> bytes:
        """Return a new certificate for a device of this fleet, whose present one may have expired, PEM.

        Args:
            request: a request that includes the present certificate.
            revoked: node ids that get no certificate.
            validity: ninety days from now by default.

        Raises:
            IdentityError: if the device does not belong to this fleet, or is revoked.
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
    """Make a fleet's key and certificate.

    Args:
        directory: directory to write to, created if missing.
        name: 1 to 40 lowercase letters, digits and inner hyphens.
        validity: when the fleet's certificate holds; ten years from now by default.

    Raises:
        IdentityError: if the name cannot name a fleet, or the directory holds one or cannot be written.
    """
    key, certificate = new_key(name, validity)
    spare_key, spare = new_key(name, validity)
    make_private_directory(directory)
    make_private_directory(directory / SPARE)
    anchors = Anchors(certificate, spare).pem
    write_new({directory / SPARE / FLEET_KEY: encode_private_key(spare_key)})
    write_new({directory / FLEET_KEY: encode_private_key(key), directory / FLEET_CERTIFICATE: anchors})
    return Fleet(name, certificate, key, spare)


def new_key(name: str, validity: Validity | None = None) -> tuple[EllipticCurvePrivateKey, x509.Certificate]:
    """Make a key for a fleet and its certificate, which is valid for ten years by default."""
    key = generate_private_key(SECP256R1())
    return key, fleet_certificate(name, key, validity or Validity.from_now(_FLEET_DAYS))


def open_fleet(directory: Path) -> Fleet:
    """Open the authority that `create_fleet` wrote.

    Raises:
        IdentityError: if a file is missing, malformed or open to other users, or the two do not belong together.
    """
    finish_move(directory)
    key_file, certificate_file = directory / FLEET_KEY, directory / FLEET_CERTIFICATE
    if not key_file.exists():
        raise IdentityError(
            f"{key_file} is missing: restore it, make a fleet with `sottovoce fleet init`, or name its directory"
        )
    key = decode_tls_key(read_private(key_file), key_file)
    anchors = read_anchors(read(certificate_file), certificate_file)
    if anchors.current.public_key() != key.public_key():
        raise IdentityError(f"{certificate_file} is not the certificate of {key_file}: restore both from their backup")
    changed = directory / FLEET_KEYS
    changes = decode_changes(read(changed), changed) if changed.exists() else ()
    return Fleet(fleet_of(anchors.current), anchors.current, key, anchors.spare, changes)


def enrol(fleet: Fleet, directory: Path, *, validity: Validity | None = None) -> Identity:
    """Make the identity of a new device: its keys, and its certificate from the fleet.

    Args:
        fleet: the authority.
        directory: directory to write to, created if missing.
        validity: when the device's certificate holds; ninety days from now by default.

    Returns:
        The identity as loaded at the beginning of its validity.

    Raises:
        IdentityError: if the directory holds an identity, is open to other users or cannot be written, or the fleet's
            own certificate does not hold when the device's begins.
    """
    validity = validity or Validity.from_now(_DEVICE_DAYS)
    keys = DeviceKeys.generate()
    certificate = fleet.issue(read_request(keys.request(), "the request"), validity)
    write_identity(directory, keys, certificate, fleet_certificate=fleet.authority.anchors.pem)
    return load(directory, validity.not_before)
