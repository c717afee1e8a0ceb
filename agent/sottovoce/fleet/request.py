"""A device's certificate request: PKCS #10, including the binding between its TLS key and its identity key.

The request is public. It is signed with the TLS key, and the binding in it is signed with the identity key. Therefore
no one can request a certificate for another device's keys, and replaying a request only yields a certificate for the
device that made it. A renewal request includes the current certificate, which shows that the device already belongs to
the fleet.
"""

from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding

from sottovoce.errors import IdentityError
from sottovoce.fleet.binding import BINDING_OID, make_binding, verify_binding
from sottovoce.fleet.certificates import common_name, device_names
from sottovoce.fleet.keys import node_id
from sottovoce.fleet.verification import UNREADABLE

MAX_REQUEST_BYTES = 16 * 2**10
_REMEDY = "create the request again on the device"


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """A certificate request whose signatures are valid.

    Attributes:
        node_id: id of the device that made the request.
        tls_key: the key to certify.
        binding: binding between that key and the device's identity key.
        current: the certificate to renew; None if the device has none yet.
    """

    node_id: str
    tls_key: EllipticCurvePublicKey
    binding: bytes
    current: x509.Certificate | None


def make_request(
    device_key: Ed25519PrivateKey,
    tls_key: EllipticCurvePrivateKey,
    *,
    fleet: str | None = None,
    current: bytes = b"",
) -> bytes:
    """Return a certificate request in PEM, followed by the certificate to renew, if any.

    Args:
        device_key: the device's identity key.
        tls_key: the key to certify.
        fleet: fleet whose device names the request includes, for a CA that does not know how the fleet names devices.
        current: the certificate to renew, PEM; empty if there is none.
    """
    device_id = node_id(device_key.public_key())
    builder = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(common_name(device_id))
        .add_extension(
            x509.UnrecognizedExtension(BINDING_OID, make_binding(device_key, tls_key.public_key())), critical=False
        )
    )
    if fleet is not None:
        builder = builder.add_extension(device_names(device_id, fleet), critical=False)
    return builder.sign(tls_key, SHA256()).public_bytes(Encoding.PEM) + current


def read_request(pem: bytes, source: object) -> Request:
    """Decode a certificate request and check its signatures.

    Args:
        pem: the request, followed by the certificate to renew, if any.
        source: what to call the request in error messages.

    Raises:
        IdentityError: if this is not a certificate request, or a signature in it is not valid.
    """
    if len(pem) > MAX_REQUEST_BYTES:
        raise IdentityError(f"{source} is too large to be a certificate request: {_REMEDY}")
    try:
        request = x509.load_pem_x509_csr(pem)
        tls_key = request.public_key()
        binding = request.extensions.get_extension_for_oid(BINDING_OID).value.public_bytes()
        certificates = x509.load_pem_x509_certificates(pem) if b"BEGIN CERTIFICATE-----" in pem else []
        if not isinstance(tls_key, EllipticCurvePublicKey) or not isinstance(tls_key.curve, SECP256R1):
            raise ValueError("not an ECDSA P-256 key")
        if not request.is_signature_valid or len(certificates) > 1:
            raise ValueError("the signature is not valid, or there is more than one certificate")
        device_id = node_id(verify_binding(binding, tls_key))
    except UNREADABLE as error:
        raise IdentityError(f"{source} is incomplete or not a certificate request: {_REMEDY}") from error
    return Request(device_id, tls_key, binding, certificates[0] if certificates else None)
