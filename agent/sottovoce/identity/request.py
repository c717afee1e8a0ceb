"""Request of a device for a certificate: PKCS #10, with the binding of its TLS key to its identity key inside.

The request is public. It is signed with the TLS key, and the binding in it with the identity key. So no one can request
a certificate for another device's keys, and repeating a request only yields that device's own certificate. A request
for renewal includes the present certificate, which shows that the device already belongs to the fleet.
"""

from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding

from sottovoce.errors import IdentityError
from sottovoce.identity.binding import BINDING_OID, bind, verify_binding
from sottovoce.identity.certificates import common_name, device_names
from sottovoce.identity.keys import node_id
from sottovoce.identity.verification import UNREADABLE

MAX_REQUEST_BYTES = 16 * 2**10
_AGAIN = "make it again on the device"


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """A request whose signatures are valid.

    Attributes:
        node_id: the device that made it.
        tls_key: the key to certify.
        binding: binding of that key to the device's identity key.
        present: the certificate to be renewed; None from a device without one.
    """

    node_id: str
    tls_key: EllipticCurvePublicKey
    binding: bytes
    present: x509.Certificate | None


def make_request(
    device_key: Ed25519PrivateKey,
    tls_key: EllipticCurvePrivateKey,
    *,
    fleet: str | None = None,
    present: bytes = b"",
) -> bytes:
    """Return a request, PEM.

    Args:
        device_key: the identity key.
        tls_key: the key to certify.
        fleet: names the device in it, for a CA that does not know the fleet's names itself.
        present: the certificate to renew, PEM.
    """
    device = node_id(device_key.public_key())
    builder = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(common_name(device))
        .add_extension(x509.UnrecognizedExtension(BINDING_OID, bind(device_key, tls_key.public_key())), critical=False)
    )
    if fleet is not None:
        builder = builder.add_extension(device_names(device, fleet), critical=False)
    return builder.sign(tls_key, SHA256()).public_bytes(Encoding.PEM) + present


def read_request(pem: bytes, source: object) -> Request:
    """Read a request and check its signatures; `source` names it in the error.

    Raises:
        IdentityError: if it is not one, or something in it does not hold.
    """
    if len(pem) > MAX_REQUEST_BYTES:
        raise IdentityError(f"{source} is too large to be a request for a certificate: {_AGAIN}")
    try:
        request = x509.load_pem_x509_csr(pem)
        tls_key = request.public_key()
        binding = request.extensions.get_extension_for_oid(BINDING_OID).value.public_bytes()
        present = x509.load_pem_x509_certificates(pem) if b"BEGIN CERTIFICATE-----" in pem else []
        if not isinstance(tls_key, EllipticCurvePublicKey) or not isinstance(tls_key.curve, SECP256R1):
            raise ValueError("not an ECDSA P-256 key")
        if not request.is_signature_valid or len(present) > 1:
            raise ValueError("not signed with the key that it names, or not of one device")
        device = node_id(verify_binding(binding, tls_key))
    except UNREADABLE as error:
        raise IdentityError(f"{source} is incomplete or not a request for a certificate: {_AGAIN}") from error
    return Request(device, tls_key, binding, present[0] if present else None)
