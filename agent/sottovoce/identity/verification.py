"""Reading of certificates, and checks that refuse invalid ones."""

from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

from sottovoce.errors import ClockError, IdentityError
from sottovoce.identity.binding import BINDING_OID, verify_binding
from sottovoce.identity.certificates import common_name, device_names, fleet_of
from sottovoce.identity.keys import node_id
from sottovoce.identity.names import device_uri, peer_dns_name

ENROL = "enrol the device again with `sottovoce fleet join`"
_RENEW = "renew it with `sottovoce fleet renew`"
# Exceptions that the library raises for forged certificates.
UNREADABLE = (
    *(ValueError, TypeError, UnsupportedAlgorithm),
    *(x509.InvalidVersion, x509.DuplicateExtension, x509.ExtensionNotFound, x509.UnsupportedGeneralNameType),
)


@dataclass(frozen=True, slots=True)
class Subject:
    """Content of a device's certificate, once verified.

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
    """Read the one certificate of a PEM file; `source` names it in the error.

    Raises:
        IdentityError: if it cannot be read, or there is more than one.
    """
    try:
        (certificate,) = x509.load_pem_x509_certificates(pem)
    except UNREADABLE as error:
        raise IdentityError(f"{source} is not one PEM certificate: {ENROL}") from error
    return certificate


def decode_fleet_certificate(pem: bytes, source: object) -> x509.Certificate:
    """Read a fleet's certificate; `source` names it in the error.

    Raises:
        IdentityError: if it cannot be read, is not self-signed, or is not a fleet's.
    """
    certificate = decode_certificate(pem, source)
    try:
        certificate.verify_directly_issued_by(certificate)
        is_authority = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        fleet_of(certificate)
    except (*UNREADABLE, InvalidSignature, IdentityError) as error:
        raise IdentityError(f"{source} is not the certificate of a fleet: {ENROL}") from error
    if not is_authority:
        raise IdentityError(f"{source} is the certificate of a device, not of a fleet: {ENROL}")
    return certificate


def check_issuer(
    certificate: x509.Certificate, authority: x509.Certificate, fleet: str, now: datetime | None, source: object
) -> None:
    """Check the issuer of a certificate, and that both certificates are valid.

    Raises:
        IdentityError: if the issuer is another, or one of them is not valid at `now`.
    """
    try:
        certificate.verify_directly_issued_by(authority)
    except (*UNREADABLE, InvalidSignature) as error:
        raise IdentityError(f"{source} was not issued by fleet {fleet!r}: {ENROL}") from error
    if now is not None:
        check_validity(authority, now, f"the certificate of fleet {fleet!r}")
        check_validity(certificate, now, source)


def subject_in(
    certificate: x509.Certificate, fleet: str, authority: x509.Certificate, source: object, *, exact: bool = True
) -> Subject:
    """Return the subject of a certificate, after a check of its names and binding.

    Args:
        certificate: the device's certificate, whose issuer is trusted.
        fleet: the fleet it must be of.
        authority: the issuer's certificate, which bounds the time in which both hold.
        source: names the certificate in the error.
        exact: whether only the names that a fleet gives are allowed; if not, other DNS names may be present too.

    Raises:
        IdentityError: if something does not hold.
    """
    try:
        public_key = _bound_key(certificate)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except UNREADABLE as error:
        raise IdentityError(f"{source} does not bind its TLS key to a device key: {ENROL}") from error
    device = node_id(public_key)
    if exact:
        right = certificate.subject == common_name(device) and names == device_names(device, fleet)
    else:
        right = peer_dns_name(device, fleet) in names.get_values_for_type(x509.DNSName) and (
            names.get_values_for_type(x509.UniformResourceIdentifier) == [device_uri(device, fleet)]
        )
    if not right:
        raise IdentityError(f"{source} names a different device or fleet from its device key: {ENROL}")
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


def check_validity(certificate: x509.Certificate, now: datetime, source: object) -> None:
    """Check that a certificate is valid at `now`.

    Raises:
        IdentityError: if it is not valid yet, or has expired.
    """
    if now < certificate.not_valid_before_utc:
        begin = certificate.not_valid_before_utc
        raise ClockError(
            f"{source} is not valid before {begin:%Y-%m-%d %H:%M} UTC: set the clock of this device, which says "
            f"{now:%Y-%m-%d %H:%M}"
        )
    if now > certificate.not_valid_after_utc:
        end = certificate.not_valid_after_utc
        raise IdentityError(f"{source} expired on {end:%Y-%m-%d %H:%M} UTC: {_RENEW}, or set the clock of this device")
