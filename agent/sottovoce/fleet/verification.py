"""Decoding and verification of certificates."""

from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

from sottovoce.errors import ClockError, IdentityError
from sottovoce.fleet.binding import BINDING_OID, verify_binding
from sottovoce.fleet.certificates import common_name, device_names, read_fleet_name
from sottovoce.fleet.keys import node_id
from sottovoce.fleet.names import device_uri, peer_dns_name

ENROL = "enrol the device again with `sottovoce fleet join`"
_RENEW = "renew it with `sottovoce fleet renew`"
# Exceptions that the cryptography library raises for malformed or forged certificates.
UNREADABLE = (
    *(ValueError, TypeError, UnsupportedAlgorithm),
    *(x509.InvalidVersion, x509.DuplicateExtension, x509.ExtensionNotFound, x509.UnsupportedGeneralNameType),
)


@dataclass(frozen=True, slots=True)
class Subject:
    """The verified content of a device's certificate.

    Attributes:
        node_id: the device's id, derived from `public_key`.
        fleet: the fleet that the certificate was issued for.
        public_key: the raw Ed25519 key that is bound to the TLS key.
        not_before: the first moment at which both this certificate and the issuer's are valid.
        not_after: the last moment at which both this certificate and the issuer's are valid.
    """

    node_id: str
    fleet: str
    public_key: bytes
    not_before: datetime
    not_after: datetime


def decode_certificate(pem: bytes, source: object) -> x509.Certificate:
    """Decode the only certificate in a PEM file, called `source` in error messages.

    Raises:
        IdentityError: if the file cannot be decoded or does not contain exactly one certificate.
    """
    try:
        (certificate,) = x509.load_pem_x509_certificates(pem)
    except UNREADABLE as error:
        raise IdentityError(f"{source} is not a single PEM certificate: {ENROL}") from error
    return certificate


def decode_fleet_certificate(pem: bytes, source: object) -> x509.Certificate:
    """Decode a fleet's certificate, called `source` in error messages.

    Raises:
        IdentityError: if the certificate cannot be decoded, is not self-signed, or is not a fleet certificate.
    """
    certificate = decode_certificate(pem, source)
    try:
        certificate.verify_directly_issued_by(certificate)
        is_authority = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        read_fleet_name(certificate)
    except (*UNREADABLE, InvalidSignature, IdentityError) as error:
        raise IdentityError(f"{source} is not a fleet certificate: {ENROL}") from error
    if not is_authority:
        raise IdentityError(f"{source} is a device certificate, not a fleet certificate: {ENROL}")
    return certificate


def check_issuer(
    certificate: x509.Certificate, authority: x509.Certificate, fleet: str, now: datetime | None, source: object
) -> None:
    """Check that the authority issued a certificate and that both certificates are valid at `now`, unless it is None.

    Raises:
        IdentityError: if the certificate has another issuer, or either certificate is not valid at `now`.
    """
    try:
        certificate.verify_directly_issued_by(authority)
    except (*UNREADABLE, InvalidSignature) as error:
        raise IdentityError(f"{source} was not issued by fleet {fleet!r}: {ENROL}") from error
    if now is not None:
        check_validity(authority, now, f"the certificate of fleet {fleet!r}")
        check_validity(certificate, now, source)


def verify_subject(
    certificate: x509.Certificate, fleet: str, authority: x509.Certificate, source: object, *, exact: bool = True
) -> Subject:
    """Check a certificate's names and key binding, and return its subject.

    Args:
        certificate: the device's certificate, whose issuer is trusted.
        fleet: the fleet that the certificate must name.
        authority: the issuer's certificate, whose validity also limits the subject's.
        source: what to call the certificate in error messages.
        exact: whether only the names that a fleet issues are allowed; if False, other DNS names may be present too.

    Raises:
        IdentityError: if any check fails.
    """
    try:
        public_key = _bound_key(certificate)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except UNREADABLE as error:
        raise IdentityError(f"{source} does not bind its TLS key to a device key: {ENROL}") from error
    device_id = node_id(public_key)
    if exact:
        is_consistent = certificate.subject == common_name(device_id) and names == device_names(device_id, fleet)
    else:
        is_consistent = peer_dns_name(device_id, fleet) in names.get_values_for_type(x509.DNSName) and (
            names.get_values_for_type(x509.UniformResourceIdentifier) == [device_uri(device_id, fleet)]
        )
    if not is_consistent:
        raise IdentityError(f"{source} identifies a device or fleet that does not match its device key: {ENROL}")
    return Subject(
        node_id=device_id,
        fleet=fleet,
        public_key=public_key,
        not_before=max(certificate.not_valid_before_utc, authority.not_valid_before_utc),
        not_after=min(certificate.not_valid_after_utc, authority.not_valid_after_utc),
    )


def _bound_key(certificate: x509.Certificate) -> bytes:
    tls_key = certificate.public_key()
    if not isinstance(tls_key, EllipticCurvePublicKey):
        raise TypeError("not an ECDSA key")
    return verify_binding(certificate.extensions.get_extension_for_oid(BINDING_OID).value.public_bytes(), tls_key)


def check_validity(certificate: x509.Certificate, now: datetime, source: object) -> None:
    """Check that a certificate is valid at `now`.

    Raises:
        ClockError: if the certificate is not valid yet.
        IdentityError: if the certificate has expired.
    """
    if now < certificate.not_valid_before_utc:
        start = certificate.not_valid_before_utc
        raise ClockError(
            f"{source} is not valid before {start:%Y-%m-%d %H:%M} UTC; set this device's clock, which shows "
            f"{now:%Y-%m-%d %H:%M}"
        )
    if now > certificate.not_valid_after_utc:
        end = certificate.not_valid_after_utc
        raise IdentityError(f"{source} expired on {end:%Y-%m-%d %H:%M} UTC; {_RENEW}, or set this device's clock")
