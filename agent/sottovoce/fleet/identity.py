"""This device's identity, as loaded from its identity directory.

Every failure raises an `IdentityError`; there is no fallback without TLS or without signatures.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding

from sottovoce.errors import IdentityError
from sottovoce.fleet.authority import (
    Authority,
    FleetAuthority,
    IssuerAuthority,
    decode_issuer,
    pinned_authority,
    verify_self_signed,
)
from sottovoce.fleet.files import read, read_private
from sottovoce.fleet.fleet_keys import RetiredKey, decode_changes, read_anchors
from sottovoce.fleet.keys import decode_device_key, decode_tls_key
from sottovoce.fleet.names import fleet_in_uri, peer_dns_name
from sottovoce.fleet.verification import (
    UNREADABLE,
    Subject,
    decode_certificate,
)
from sottovoce.limits import describe_shortage

Mode = Literal["fleet-ca", "external", "pinned"]

IDENTITY = "identity"
"""Name of the identity directory in a device's state directory."""

DEVICE_KEY = "device.key"
TLS_KEY = "tls.key"
TLS_CERTIFICATE = "tls.pem"
FLEET_CERTIFICATE = "ca.pem"
FLEET_KEYS = "keys.json"
"""File of the fleet's key changes since FLEET_CERTIFICATE was written; absent if there are none."""
ISSUER_CERTIFICATE = "issuer.pem"
PINS = "pins"
_PEER = "the peer's certificate"


@dataclass(frozen=True, slots=True, eq=False)
class Identity:
    """This device's identity and the keys that prove it.

    Attributes:
        node_id: this device's id.
        fleet: the name of the fleet that the device belongs to.
        mode: kind of authority that vouches for the fleet's devices.
        public_key: the device's raw Ed25519 public key, 32 bytes.
        tls_key_pem: the device's TLS key, PEM; secret.
        tls_cert_pem: the device's certificate, PEM.
        certificate_der: the device's certificate, DER, which its records carry to devices that do not know it yet.
        not_before: the first moment at which the device's and its issuer's certificates are both valid.
        not_after: the last moment at which the device's and its issuer's certificates are both valid.
        authority: authority that decides which devices belong to the fleet.
        retired: the key that issued the device's certificate, if the fleet has retired that key; otherwise None.
    """

    node_id: str
    fleet: str
    mode: Mode
    public_key: bytes
    tls_key_pem: bytes = field(repr=False)
    tls_cert_pem: bytes = field(repr=False)
    certificate_der: bytes = field(repr=False)
    not_before: datetime
    not_after: datetime
    authority: Authority = field(repr=False)
    _device_key: Ed25519PrivateKey = field(repr=False)
    retired: RetiredKey | None = None

    @property
    def ca_pem(self) -> bytes:
        """The certificates that TLS must trust, PEM: the authority's or, for a pinned device, its peers'."""
        return self.authority.roots

    @property
    def dns_name(self) -> str:
        """The DNS name in this device's certificate."""
        return peer_dns_name(self.node_id, self.fleet)

    def sign(self, message: bytes) -> bytes:
        """Return the 64-byte Ed25519 signature of a message, which must begin with its own domain string."""
        return self._device_key.sign(message)


def load(
    directory: Path, now: datetime | None = None, peers: Iterable[str] = (), *, check_dates: bool = True
) -> Identity:
    """Load and check the identity that `sottovoce fleet join` wrote.

    Args:
        directory: the identity directory.
        now: an aware datetime at which the certificates must be valid; defaults to the current time.
        peers: the node ids that a pinned device trusts; ignored for other devices.
        check_dates: whether the certificates must be valid at `now`; pass False to renew a certificate.

    Raises:
        IdentityError: if a file is missing, unreadable, malformed, or private but accessible to other users; if a
            certificate is not valid at `now` or does not belong to this fleet; or if the files do not match.
    """
    device_key_file, tls_key_file = directory / DEVICE_KEY, directory / TLS_KEY
    certificate_file = directory / TLS_CERTIFICATE
    tls_key_pem, tls_cert_pem = read_private(tls_key_file), read(certificate_file)
    mode, authority_file = detect_mode(directory)
    ca_pem = b"" if mode == "pinned" else read(authority_file)
    device_key = decode_device_key(read_private(device_key_file), device_key_file)
    tls_key = decode_tls_key(tls_key_pem, tls_key_file)
    valid_at = (now or datetime.now(UTC)) if check_dates else None
    authority: Authority
    if mode == "pinned":
        certificate = decode_certificate(tls_cert_pem, certificate_file)
        fleet = _fleet_in_certificate(certificate, certificate_file)
        subject = verify_self_signed(certificate, fleet, valid_at, certificate_file)
        authority = pinned_authority(fleet, _read_pins(authority_file), set(peers) - {subject.node_id}, authority_file)
    else:
        if mode == "external":
            issuer = decode_issuer(ca_pem, authority_file)
            certificate = decode_certificate(tls_cert_pem, certificate_file)
            authority = IssuerAuthority(issuer, _fleet_in_certificate(certificate, certificate_file))
        else:
            authority = fleet_authority(directory)
            certificate = decode_certificate(tls_cert_pem, certificate_file)
        subject = authority.verify(certificate, valid_at, certificate_file)
    if certificate.public_key() != tls_key.public_key():
        raise IdentityError(
            f"{certificate_file} does not belong to {tls_key_file}; restore both from a backup, or enrol again"
        )
    if subject.public_key != device_key.public_key().public_bytes_raw():
        raise IdentityError(
            f"{certificate_file} does not belong to {device_key_file}; restore both from a backup, or enrol again"
        )
    return Identity(
        node_id=subject.node_id,
        fleet=subject.fleet,
        mode=mode,
        public_key=subject.public_key,
        tls_key_pem=tls_key_pem,
        tls_cert_pem=tls_cert_pem,
        certificate_der=certificate.public_bytes(Encoding.DER),
        not_before=subject.not_before,
        not_after=subject.not_after,
        authority=authority,
        _device_key=device_key,
        retired=authority.find_retired_issuer(certificate) if isinstance(authority, FleetAuthority) else None,
    )


def fleet_authority(directory: Path) -> FleetAuthority:
    """Return a fleet's authority, built from the certificates and the key changes in a directory.

    Raises:
        IdentityError: if a file cannot be read or is corrupt.
    """
    path, changes_file = directory / FLEET_CERTIFICATE, directory / FLEET_KEYS
    anchors = read_anchors(read(path), path)
    authority = FleetAuthority(anchors.current, anchors.spare)
    if not changes_file.exists():
        return authority
    return authority.with_changes(decode_changes(read(changes_file), changes_file))


def detect_mode(directory: Path) -> tuple[Mode, Path]:
    """Return an identity's mode, inferred from its files, and the path of the authority's certificates."""
    if (directory / PINS).is_dir():
        return "pinned", directory / PINS
    if (directory / ISSUER_CERTIFICATE).exists():
        return "external", directory / ISSUER_CERTIFICATE
    return "fleet-ca", directory / FLEET_CERTIFICATE


def verify_peer_certificate(pem: bytes, identity: Identity, now: datetime | None = None) -> Subject:
    """Check the certificate of a peer that TLS has accepted, including the device key, which TLS does not check.

    Args:
        pem: the peer's certificate, as TLS reports it.
        identity: this device's identity.
        now: an aware datetime; defaults to the current time.

    Returns:
        The certificate's subject.

    Raises:
        IdentityError: if this is not a certificate of a device in this fleet that is valid at `now`.
    """
    certificate = decode_certificate(pem, _PEER)
    return identity.authority.verify(certificate, now or datetime.now(UTC), _PEER)


def verify_credential(der: bytes, authority: Authority, now: datetime | None = None) -> Subject:
    """Check a certificate that came with a document that its device has signed.

    Args:
        der: the certificate, DER.
        authority: authority of the fleet that the device must belong to.
        now: an aware datetime; None to skip the validity check, if the signed document outlives the certificate.

    Returns:
        The certificate's subject, which contains the key to verify the document with.

    Raises:
        IdentityError: if this is not a certificate of a device in this fleet, or is not valid at `now`.
    """
    return _verify_der(der, authority, now)


def verify_device_certificate(der: bytes, fleet_certificate: bytes, now: datetime | None = None) -> Subject:
    """Return a certificate's subject for a caller that has no identity, only a trusted fleet's certificate in PEM.

    Args:
        der: the device's certificate, DER.
        fleet_certificate: the fleet's certificate, or its current and spare certificates, PEM.
        now: an aware datetime; None to skip the validity check.

    Raises:
        IdentityError: if this is not a certificate of a device in that fleet, or is not valid at `now`.
    """
    anchors = read_anchors(fleet_certificate, "the trusted certificate")
    return _verify_der(der, FleetAuthority(anchors.current, anchors.spare), now)


def _verify_der(der: bytes, authority: Authority, now: datetime | None) -> Subject:
    try:
        certificate = x509.load_der_x509_certificate(der)
    except UNREADABLE as error:
        raise IdentityError(
            "the credential is not a certificate, so the sender is not an agent in this fleet"
        ) from error
    return authority.verify(certificate, now, "the credential")


def _fleet_in_certificate(certificate: x509.Certificate, source: Path) -> str:
    """Return the fleet name in this device's SPIFFE id, for a device without a fleet certificate."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except UNREADABLE as error:
        raise IdentityError(
            f"{source} does not identify a device; have the CA reissue it with the names from the request"
        ) from error
    for uri in names.get_values_for_type(x509.UniformResourceIdentifier):
        if (fleet := fleet_in_uri(uri)) is not None:
            return fleet
    raise IdentityError(
        f"{source} does not contain a device SPIFFE id; have the CA reissue it with the names from the request"
    )


def _read_pins(directory: Path) -> list[x509.Certificate]:
    """Return the pinned certificates sorted by `not_before`, so that a device's newest one takes precedence."""
    try:
        files = sorted(directory.glob("*.pem"))
    except OSError as error:
        remedy = describe_shortage(error) or f"{error.strerror}; fix its owner or mode"
        raise IdentityError(f"{directory} cannot be read: {remedy}") from error
    certificates = [decode_certificate(read(file), file) for file in files]
    return sorted(certificates, key=lambda certificate: certificate.not_valid_before_utc)
