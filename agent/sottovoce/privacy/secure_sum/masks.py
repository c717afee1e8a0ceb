"""Masks made from ChaCha20 key streams, which are added to integer vectors modulo 2^m."""

import math

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from sottovoce.errors import MessageRefused

WIDTHS = (2, 3, 4, 6, 8)
"""Possible numbers of bytes per value; the smallest that can represent the sum is used."""

_TAIL_DEVIATIONS = 10  # noise beyond this number of standard deviations is neglected
_TEST_KEY = X25519PrivateKey.from_private_bytes(bytes([1]) * 32)  # used only to test keys; protects nothing
_NONCE = bytes(16)  # each key masks one vector


def largest_value(members: int, reach: int, share: int) -> int:
    """Return the largest magnitude of a value in a sum of honest members' vectors and noise, in grid units.

    Args:
        members: number of members in the sum.
        reach: the largest magnitude of a value in one vector, in grid units.
        share: σ of one member's noise share, in grid units.
    """
    return members * reach + _TAIL_DEVIATIONS * share * (math.isqrt(members) + 1)


def bytes_per_value(members: int, reach: int, share: int) -> int:
    """Return the number of bytes per value needed to represent the sum of all members' vectors and noise.

    Args:
        members: number of cell members.
        reach: see `largest_value`.
        share: see `largest_value`.
    """
    largest = largest_value(members, reach, share)
    return next((width for width in WIDTHS if 2 * largest < 2 ** (8 * width)), WIDTHS[-1])


def own_mask(seed: bytes, h: bytes, size: int, width: int) -> NDArray[np.uint64]:
    """Return a member's own mask, uint64[size].

    Args:
        seed: 32 bytes.
        h: round digest.
        size: vector length.
        width: bytes per value.
    """
    return _key_stream(_derive_key(seed, h, b"sottovoce/secure-sum/own-mask/v1"), size, width)


def pair_mask(
    private_key: X25519PrivateKey, public_key: bytes, h: bytes, pair: tuple[int, int], size: int, width: int
) -> NDArray[np.uint64]:
    """Return the mask that two members share, uint64[size]; the first member adds it and the second subtracts it.

    The mask's key is bound to the two roster indices, so a device that offers a copy of another
    member's key gains nothing.

    Args:
        private_key: private key of one member.
        public_key: public key of the other member.
        h: round digest.
        pair: the two members' roster indices, in any order.
        size: vector length.
        width: bytes per value.

    Raises:
        MessageRefused: for `malformed`, if `public_key` is not a valid key.
    """
    indices = b"".join(index.to_bytes(2, "big") for index in sorted(pair))
    secret = shared_secret(private_key, public_key)
    return _key_stream(_derive_key(secret, h, b"sottovoce/secure-sum/pair-mask/v1" + indices), size, width)


def shared_secret(private_key: X25519PrivateKey, public_key: bytes) -> bytes:
    """Return the X25519 shared secret of two keys, 32 bytes.

    Raises:
        MessageRefused: for `malformed`, if `public_key` is not a valid key.
    """
    try:
        return private_key.exchange(X25519PublicKey.from_public_bytes(public_key))
    except ValueError as error:
        raise MessageRefused("malformed", "a cell member offered an invalid key") from error


def check_keys(*keys: bytes) -> None:
    """Reject invalid public keys, including keys that yield the same shared secret with every key.

    Raises:
        MessageRefused: for `malformed`, if one of the keys is invalid or yields the same secret with every key.
    """
    for key in keys:
        shared_secret(_TEST_KEY, key)


def pack_values(vector: NDArray[np.uint64], width: int) -> bytes:
    """Pack values modulo 2^(8 width) into `width` bytes each, little-endian."""
    return vector.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width].tobytes()


def unpack_values(raw: bytes, width: int) -> NDArray[np.uint64]:
    """Unpack values packed by `pack_values`, as uint64."""
    padded = np.zeros((len(raw) // width, 8), dtype=np.uint8)
    padded[:, :width] = np.frombuffer(raw, dtype=np.uint8).reshape(-1, width)
    return padded.view("<u8").ravel().astype(np.uint64)


def centre_values(vector: NDArray[np.uint64], width: int) -> NDArray[np.int64]:
    """Map numbers modulo 2^(8 width) to their representatives nearest to 0, int64."""
    shift = np.uint64(64 - 8 * width)
    return (vector << shift).view(np.int64) >> np.int64(shift)


def _derive_key(secret: bytes, h: bytes, purpose: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=h, info=purpose).derive(secret)


def _key_stream(key: bytes, size: int, width: int) -> NDArray[np.uint64]:
    return unpack_values(Cipher(ChaCha20(key, _NONCE), mode=None).encryptor().update(bytes(size * width)), width)
