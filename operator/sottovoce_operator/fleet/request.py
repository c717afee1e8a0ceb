"""Certificate requests as the holder of the fleet's key reads them; see sottovoce.fleet.request."""

from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from sottovoce.errors import IdentityError
from sottovoce.fleet.binding import BINDING_OID, verify_binding
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
