"""Encodings of private keys, and derivation of node ids from Ed25519 public keys.

The TLS key is a separate ECDSA P-256 key, because gRPC's TLS library rejects Ed25519 certificates. The device's
certificate binds the two keys together (`sottovoce.fleet.binding`).
"""

import base64
import hashlib
from functools import lru_cache

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from sottovoce.errors import IdentityError

PUBLIC_KEY_BYTES = 32
SIGNATURE_BYTES = 64
_NODE_ID_CHARACTERS = 32
_MAX_DERIVED = 1024  # node ids kept in memory: a cycle needs those of the same few devices some twenty times


def node_id(public: Ed25519PublicKey | bytes) -> str:
    """Return the node id of the device that owns a public key.

    Args:
        public: an Ed25519 public key, or its 32 raw bytes.

    Returns:
        The first 32 characters (160 bits) of the raw key's SHA-256 digest in lowercase base32.

    Raises:
        IdentityError: if the raw key is not 32 bytes long.
    """
    return _derive_node_id(public if isinstance(public, bytes) else public.public_bytes_raw())


@lru_cache(_MAX_DERIVED)
def _derive_node_id(raw: bytes) -> str:
    if len(raw) != PUBLIC_KEY_BYTES:
        raise IdentityError(f"an Ed25519 public key has {PUBLIC_KEY_BYTES} bytes, not {len(raw)}")
    return base64.b32encode(hashlib.sha256(raw).digest()).decode("ascii").lower()[:_NODE_ID_CHARACTERS]


def encode_private_key(key: PrivateKeyTypes) -> bytes:
    """Return a private key as unencrypted PKCS #8 PEM; the file's mode must protect it."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def decode_device_key(pem: bytes, source: object) -> Ed25519PrivateKey:
    """Decode a device's Ed25519 private key, called `source` in error messages.

    Raises:
        IdentityError: if the PEM does not contain an unencrypted Ed25519 key.
    """
    key = _decode(pem, source)
    if not isinstance(key, Ed25519PrivateKey):
        raise IdentityError(
            f"{source} does not contain an Ed25519 key; restore it from a backup, or enrol again with `sottovoce "
            "fleet join`"
        )
    return key


def decode_tls_key(pem: bytes, source: object) -> EllipticCurvePrivateKey:
    """Decode an ECDSA P-256 private key of a device or a fleet, called `source` in error messages.

    Raises:
        IdentityError: if the PEM does not contain an unencrypted ECDSA P-256 key.
    """
    key = _decode(pem, source)
    if not isinstance(key, EllipticCurvePrivateKey) or not isinstance(key.curve, SECP256R1):
        raise IdentityError(
            f"{source} does not contain an ECDSA P-256 key; restore it from a backup, or create a new one"
        )
    return key


def _decode(pem: bytes, source: object) -> PrivateKeyTypes:
    try:
        return serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise IdentityError(f"{source} is not an unencrypted PEM private key; restore it from a backup") from error
