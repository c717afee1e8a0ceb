"""Construction of X.509 certificates for fleets and devices."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sottovoce.fleet.binding import BINDING_OID, verify_binding
from sottovoce.fleet.keys import node_id
from sottovoce.fleet.names import check_fleet_name, device_uri, peer_dns_name

_CLOCK_LAG = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Validity:
    """A certificate's validity period, as aware datetimes; both ends are inclusive."""

    not_before: datetime
    not_after: datetime

    @classmethod
    def from_now(cls, days: float) -> Self:
        """Return a validity that ends `days` from now; it starts five minutes ago to allow for slow clocks."""
        now = datetime.now(UTC)
        return cls(now - _CLOCK_LAG, now + timedelta(days=days))


def fleet_certificate(fleet: str, key: EllipticCurvePrivateKey, validity: Validity) -> x509.Certificate:
    """Return a self-signed fleet certificate.

    Raises:
        IdentityError: if `fleet` is not a valid fleet name.
    """
    name = common_name(check_fleet_name(fleet))
    return (
        certificate_builder(name, name, key.public_key(), validity)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(key_usage(is_authority=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, SHA256())
    )


def device_certificate(
    authority: x509.Certificate,
    authority_key: EllipticCurvePrivateKey,
    tls_key: EllipticCurvePublicKey,
    binding: bytes,
    validity: Validity,
) -> x509.Certificate:
    """Issue a device certificate; this does not require any of the device's private keys.

    Args:
        authority: the fleet's certificate.
        authority_key: the fleet's private key.
        tls_key: the device's public TLS key.
        binding: result of `sottovoce.fleet.binding.make_binding` on the device.
        validity: validity of the new certificate.

    Raises:
        ValueError: if the binding does not belong to this TLS key.
    """
    device = node_id(verify_binding(binding, tls_key))
    builder = certificate_builder(common_name(device), authority.subject, tls_key, validity)
    key_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    return (
        _add_device_extensions(builder, device, read_fleet_name(authority), binding)
        .add_extension(key_id, critical=False)
        .sign(authority_key, SHA256())
    )


def self_signed_certificate(
    fleet: str, tls_key: EllipticCurvePrivateKey, binding: bytes, validity: Validity
) -> x509.Certificate:
    """Return a self-signed device certificate, for which only the device's identity key vouches, through the binding.

    Raises:
        ValueError: if the binding does not belong to this TLS key.
    """
    device = node_id(verify_binding(binding, tls_key.public_key()))
    builder = certificate_builder(common_name(device), common_name(device), tls_key.public_key(), validity)
    return _add_device_extensions(builder, device, fleet, binding).sign(tls_key, SHA256())


def common_name(value: str) -> x509.Name:
    """Return an X.509 name that consists of a single common name."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, value)])


def read_fleet_name(authority: x509.Certificate) -> str:
    """Return the fleet name in a fleet certificate.

    Raises:
        ValueError: if the certificate's subject does not have exactly one attribute.
        IdentityError: if that attribute is not a valid fleet name.
    """
    (attribute,) = authority.subject
    return check_fleet_name(str(attribute.value))


def device_names(node_id: str, fleet: str) -> x509.SubjectAlternativeName:
    """Return the subject alternative names for a device certificate: the DNS name and the SPIFFE id."""
    dns, uri = peer_dns_name(node_id, fleet), device_uri(node_id, fleet)
    return x509.SubjectAlternativeName([x509.DNSName(dns), x509.UniformResourceIdentifier(uri)])


def certificate_builder(
    subject: x509.Name, issuer: x509.Name, key: EllipticCurvePublicKey, validity: Validity
) -> x509.CertificateBuilder:
    """Return a builder with a new random serial number and without extensions."""
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(validity.not_before)
        .not_valid_after(validity.not_after)
    )


def _add_device_extensions(
    builder: x509.CertificateBuilder, device: str, fleet: str, binding: bytes
) -> x509.CertificateBuilder:
    """Return a builder with the extensions that all device certificates share, regardless of who signs them."""
    usages = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH])
    return (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(key_usage(is_authority=False), critical=True)
        .add_extension(usages, critical=False)
        .add_extension(device_names(device, fleet), critical=False)
        .add_extension(x509.UnrecognizedExtension(BINDING_OID, binding), critical=False)
    )


def key_usage(*, is_authority: bool) -> x509.KeyUsage:
    """Return the key usage: an authority signs certificates; a device or a server signs messages."""
    return x509.KeyUsage(
        digital_signature=not is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )
