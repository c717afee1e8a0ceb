"""Reading certificates, and refusing those that do not hold."""

from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

from sottovoce.errors import IdentityError
from sottovoce.identity.binding import BINDING_OID, verify_binding
from sottovoce.identity.certificates import common_name, device_names, fleet_of
from sottovoce.identity.keys import node_id

_ENROL = "enrol the device again with `sottovoce fleet join`"
_UNREADABLE = (ValueError, TypeError, UnsupportedAlgorithm, x509.DuplicateExtension, x509.ExtensionNotFound)


@dataclass(frozen=True, slots=True)
class Subject:
    """What a device's certificate says, once verified.

    Attributes:
        node_id: the device's id, derived from `public_key`.
        fleet: the fleet it was issued for.
        public_key: the raw Ed25519 key that is bound to the TLS key.
        not_before: the first moment at which both this certificate and the fleet's hold.
        not_after: the last moment at which both this certificate and the fleet's hold.
    """

    node_id: str
    fleet: str
    public_key: bytes
    not_before: datetime
    not_after: datetime


def decode_certificate(pem: bytes, source: object) -> x509.Certificate:
    """Reads the one certificate of a PEM file; `source` names it in the error.

    Raises:
        IdentityError: it cannot be read, or there is more than one.
    """
    try:
        (certificate,) = x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise IdentityError(f"{source} is not one PEM certificate: {_ENROL}") from error
    return certificate


def decode_fleet_certificate(pem: bytes, source: object) -> x509.Certificate:
    """Reads a fleet's certificate; `source` names it in the error.

    Raises:
        IdentityError: it cannot be read, is not self-signed, or is not a fleet's.
    """
    certificate = decode_certificate(pem, source)
    try:
        certificate.verify_directly_issued_by(certificate)
        is_authority = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        fleet_of(certificate)
    except (*_UNREADABLE, InvalidSignature, IdentityError) as error:
        raise IdentityError(f"{source} is not the certificate of a fleet: {_ENROL}") from error
    if not is_authority:
        raise IdentityError(f"{source} is the certificate of a device, not of a fleet: {_ENROL}")
    return certificate


def verify_device_certificate(
    certificate: x509.Certificate, authority: x509.Certificate, now: datetime | None, source: object
) -> Subject:
    """Checks all that a device's certificate claims: issuer, validity, names and binding.

    Args:
        certificate: the device's certificate.
        authority: the certificate of the fleet, already trusted.
        now: an aware datetime; None if what the certificate vouches for outlives it.
        source: names the certificate in the error.

    Raises:
        IdentityError: something does not hold.
    """
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature) as error:
        raise IdentityError(f"{source} was not issued by fleet {fleet_of(authority)!r}: {_ENROL}") from error
    if now is not None:
        _check_validity(authority, now, f"the certificate of fleet {fleet_of(authority)!r}")
        _check_validity(certificate, now, source)
    try:
        public_key = _bound_key(certificate)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except _UNREADABLE as error:
        raise IdentityError(f"{source} does not bind its TLS key to a device key: {_ENROL}") from error
    device, fleet = node_id(public_key), fleet_of(authority)
    if certificate.subject != common_name(device) or names != device_names(device, fleet):
        raise IdentityError(f"{source} names another device or fleet than its device key does: {_ENROL}")
    return Subject(
        node_id=device,
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


def _check_validity(certificate: x509.Certificate, now: datetime, source: object) -> None:
    if now < certificate.not_valid_before_utc:
        begin = certificate.not_valid_before_utc
        raise IdentityError(f"{source} is not valid before {begin:%Y-%m-%d %H:%M} UTC: set the clock of this device")
    if now > certificate.not_valid_after_utc:
        end = certificate.not_valid_after_utc
        raise IdentityError(f"{source} expired on {end:%Y-%m-%d %H:%M} UTC: {_ENROL}, or set the clock of this device")
