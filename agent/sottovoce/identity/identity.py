"""The identity of this device, loaded from its directory or not at all.

Every failure is an `IdentityError`; there is no mode without TLS or without a signature to fall back to.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding

from sottovoce.errors import IdentityError
from sottovoce.identity.files import read, read_private
from sottovoce.identity.keys import decode_device_key, decode_tls_key
from sottovoce.identity.names import peer_dns_name
from sottovoce.identity.verification import (
    Subject,
    decode_certificate,
    decode_fleet_certificate,
    verify_device_certificate,
)

DEVICE_KEY = "device.key"
TLS_KEY = "tls.key"
TLS_CERTIFICATE = "tls.pem"
FLEET_CERTIFICATE = "ca.pem"
_PEER = "the certificate of the peer"


@dataclass(frozen=True, slots=True, eq=False)
class Identity:
    """Who this device is, and how it proves it.

    Attributes:
        node_id: this device's id.
        fleet: the fleet it belongs to.
        public_key: its raw Ed25519 public key, 32 bytes.
        tls_key_pem: its TLS key, secret.
        tls_cert_pem: its certificate.
        certificate_der: the same, in the form that its records carry to devices it has never met.
        ca_pem: the fleet's certificate: the only one it trusts.
        not_after: the last moment at which its certificates hold.
    """

    node_id: str
    fleet: str
    public_key: bytes
    tls_key_pem: bytes = field(repr=False)
    tls_cert_pem: bytes = field(repr=False)
    certificate_der: bytes = field(repr=False)
    ca_pem: bytes = field(repr=False)
    not_after: datetime
    _device_key: Ed25519PrivateKey = field(repr=False)
    _authority: x509.Certificate = field(repr=False)

    @property
    def dns_name(self) -> str:
        """The DNS name in this device's certificate."""
        return peer_dns_name(self.node_id, self.fleet)

    def sign(self, message: bytes) -> bytes:
        """The Ed25519 signature of a message that begins with its own domain string, 64 bytes."""
        return self._device_key.sign(message)


def load(directory: Path, now: datetime | None = None) -> Identity:
    """Loads and checks the identity that `sottovoce.identity.fleet.enrol` wrote.

    Args:
        directory: where its four files are.
        now: an aware datetime to judge the certificates by; the clock's by default.

    Raises:
        IdentityError: a file is missing, unreadable, malformed or open to other users, a certificate does not hold
            now or is not of this fleet, or the files do not belong together.
    """
    device_key_file, tls_key_file = directory / DEVICE_KEY, directory / TLS_KEY
    certificate_file, fleet_file = directory / TLS_CERTIFICATE, directory / FLEET_CERTIFICATE
    tls_key_pem, tls_cert_pem, ca_pem = read_private(tls_key_file), read(certificate_file), read(fleet_file)
    device_key = decode_device_key(read_private(device_key_file), device_key_file)
    tls_key = decode_tls_key(tls_key_pem, tls_key_file)
    authority = decode_fleet_certificate(ca_pem, fleet_file)
    certificate = decode_certificate(tls_cert_pem, certificate_file)
    subject = verify_device_certificate(certificate, authority, now or datetime.now(UTC), certificate_file)
    if certificate.public_key() != tls_key.public_key():
        raise IdentityError(
            f"{certificate_file} is not the certificate of {tls_key_file}: restore both, or enrol again"
        )
    if subject.public_key != device_key.public_key().public_bytes_raw():
        raise IdentityError(
            f"{certificate_file} is not of the device of {device_key_file}: restore both, or enrol again"
        )
    return Identity(
        node_id=subject.node_id,
        fleet=subject.fleet,
        public_key=subject.public_key,
        tls_key_pem=tls_key_pem,
        tls_cert_pem=tls_cert_pem,
        certificate_der=certificate.public_bytes(Encoding.DER),
        ca_pem=ca_pem,
        not_after=subject.not_after,
        _device_key=device_key,
        _authority=authority,
    )


def verify_peer_certificate(pem: bytes, identity: Identity, now: datetime | None = None) -> str:
    """Checks the certificate of a device that TLS let in, again and in full: an old connection outlives its end.

    Args:
        pem: the peer's certificate, as TLS reports it.
        identity: this device.
        now: an aware datetime; the clock's by default.

    Returns:
        The peer's node id.

    Raises:
        IdentityError: it is not the certificate of a device of this fleet that holds now.
    """
    certificate = decode_certificate(pem, _PEER)
    return verify_device_certificate(certificate, identity._authority, now or datetime.now(UTC), _PEER).node_id


def verify_credential(der: bytes, identity: Identity, now: datetime | None = None) -> Subject:
    """Checks a certificate that came with something its device has signed.

    Args:
        der: the certificate.
        identity: this device, whose fleet must have issued it.
        now: an aware datetime; None if what was signed outlives the certificate.

    Returns:
        Whose it is, with the key that signs.

    Raises:
        IdentityError: it is not the certificate of a device of this fleet, or does not hold now.
    """
    return _subject(der, identity._authority, now)


def subject_of(der: bytes, fleet_certificate: bytes, now: datetime | None = None) -> Subject:
    """The same for whoever has no identity of their own, but the certificate of the fleet they trust, PEM."""
    return _subject(der, decode_fleet_certificate(fleet_certificate, "the trusted certificate"), now)


def _subject(der: bytes, authority: x509.Certificate, now: datetime | None) -> Subject:
    try:
        certificate = x509.load_der_x509_certificate(der)
    except ValueError as error:
        raise IdentityError("the credential is not a certificate: its sender is not an agent of this fleet") from error
    return verify_device_certificate(certificate, authority, now, "the credential")
