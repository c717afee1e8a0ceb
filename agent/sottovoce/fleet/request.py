"""A device's certificate request: PKCS #10, including the binding between its TLS key and its identity key.

The request is public. It is signed with the TLS key, and the binding in it is signed with the identity key. Therefore
no one can request a certificate for another device's keys, and replaying a request only yields a certificate for the
device that made it. A renewal request includes the current certificate, which shows that the device already belongs to
the fleet.
"""

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding

from sottovoce.fleet.binding import BINDING_OID, make_binding
from sottovoce.fleet.certificates import common_name, device_names
from sottovoce.fleet.keys import node_id


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
