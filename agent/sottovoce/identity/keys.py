"""Device keys: the Ed25519 key a node id is derived from, and their encodings.

The TLS key is a second, ECDSA P-256 key, because gRPC's TLS library refuses Ed25519 certificates; the certificate
binds the two (`sottovoce.identity.certificates`).
"""

import base64
import hashlib

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from sottovoce.errors import IdentityError

PUBLIC_KEY_BYTES = 32
SIGNATURE_BYTES = 64
_NODE_ID_CHARACTERS = 32


def node_id(public: Ed25519PublicKey | bytes) -> str:
    """Return the id of the device that holds the private half of a key.

    Args:
        public: an Ed25519 public key, or its 32 raw bytes.

    Returns:
        The first 32 characters (160 bits) of the lowercase base32 of SHA-256 of the raw key.

    Raises:
        IdentityError: if the bytes are not 32.
    """
    raw = public if isinstance(public, bytes) else public.public_bytes_raw()
    if len(raw) != PUBLIC_KEY_BYTES:
        raise IdentityError(f"an Ed25519 public key has {PUBLIC_KEY_BYTES} bytes, not {len(raw)}")
    return base64.b32encode(hashlib.sha256(raw).digest()).decode("ascii").lower()[:_NODE_ID_CHARACTERS]


def encode_private_key(key: PrivateKeyTypes) -> bytes:
    """Return a key as PKCS #8 PEM, unencrypted: the file's mode guards it."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def decode_device_key(pem: bytes, source: object) -> Ed25519PrivateKey:
    """Read a device's Ed25519 key; `source` names it in the error.

    Raises:
        IdentityError: if it is anything else.
    """
    key = _decode(pem, source)
    if not isinstance(key, Ed25519PrivateKey):
        raise IdentityError(f"{source} holds no Ed25519 key: restore it, or enrol again with `sottovoce fleet join`")
    return key


def decode_tls_key(pem: bytes, source: object) -> EllipticCurvePrivateKey:
    """Read an ECDSA P-256 key, a device's or a fleet's; `source` names it in the error.

    Raises:
        IdentityError: if it is anything else.
    """
    key = _decode(pem, source)
    if not isinstance(key, EllipticCurvePrivateKey) or not isinstance(key.curve, SECP256R1):
        raise IdentityError(f"{source} holds no ECDSA P-256 key: restore it from its backup, or make a new one")
    return key


def _decode(pem: bytes, source: object) -> PrivateKeyTypes:
    try:
        return serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise IdentityError(f"{source} is not an unencrypted PEM private key: restore it from its backup") from error
