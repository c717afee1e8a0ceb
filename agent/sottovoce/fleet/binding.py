"""Certificate extension that binds a device's TLS key to its identity key.

As in libp2p (specs/tls/tls.md), the extension contains the device's Ed25519 key and that key's signature over the TLS
key. The signature proves that the holder of the identity key chose the TLS key. Neither the fleet's key nor a stolen
TLS key is enough to make a binding for another device.
"""

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from sottovoce.fleet.keys import PUBLIC_KEY_BYTES, SIGNATURE_BYTES

# RFC 5612 reserves enterprise number 32473 for examples, so this OID does not collide with any vendor's extension.
# Under that number, arc 1 means Sottovoce, and 1.1 the first version of this extension.
BINDING_OID = x509.ObjectIdentifier("1.3.6.1.4.1.32473.1.1")
_DOMAIN = b"sottovoce/tls-binding/v1"
# A DER OCTET STRING of 96 bytes: the raw public key followed by the signature.
_HEADER = bytes([0x04, PUBLIC_KEY_BYTES + SIGNATURE_BYTES])


def make_binding(device_key: Ed25519PrivateKey, tls_key: EllipticCurvePublicKey) -> bytes:
    """Return the extension's value, which only the holder of the device key can make."""
    public_key = device_key.public_key().public_bytes_raw()
    return _HEADER + public_key + device_key.sign(_message(tls_key))


def verify_binding(binding: bytes, tls_key: EllipticCurvePublicKey) -> bytes:
    """Check that the extension's value binds the certificate's TLS key.

    Returns:
        The device's raw Ed25519 key, 32 bytes.

    Raises:
        ValueError: if the value is malformed, or the signature in it is not over this TLS key.
    """
    if not binding.startswith(_HEADER):
        raise ValueError("malformed binding")
    body = binding.removeprefix(_HEADER)
    public_key, signature = body[:PUBLIC_KEY_BYTES], body[PUBLIC_KEY_BYTES:]
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, _message(tls_key))
    except InvalidSignature as error:
        raise ValueError("the binding belongs to another TLS key") from error
    return public_key


def _message(tls_key: EllipticCurvePublicKey) -> bytes:
    return _DOMAIN + tls_key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
