"""Masks: streams of ChaCha20, added to vectors of integers modulo 2^m."""

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
"""Possible bytes per value, of which the least that hold a sum are used."""

_ROOM = 10  # standard deviations
_ANY = X25519PrivateKey.from_private_bytes(bytes([1]) * 32)  # used only to test keys; protects nothing
_NONCE = bytes(16)  # each key masks one vector


def width_of(members: int, reach: int, share: int) -> int:
    """Return the bytes per value that hold the sum of this many vectors and their noise.

    Args:
        members: members of the cell.
        reach: the largest magnitude of a value in one vector, in grid units.
        share: σ of one member's share of the noise.
    """
    largest = members * reach + _ROOM * share * (math.isqrt(members) + 1)
    return next((width for width in WIDTHS if 2 * largest < 2 ** (8 * width)), WIDTHS[-1])


def own_mask(seed: bytes, h: bytes, size: int, width: int) -> NDArray[np.uint64]:
    """Return a member's own mask, uint64[size].

    Args:
        seed: 32 bytes.
        h: hash of the round.
        size: length of a vector.
        width: bytes per value.
    """
    return _stream(_derived(seed, h, b"sottovoce/secure-sum/own-mask/v1"), size, width)


def pair_mask(
    own: X25519PrivateKey, other: bytes, h: bytes, pair: tuple[int, int], size: int, width: int
) -> NDArray[np.uint64]:
    """Return the mask that two members share, uint64[size]; the first adds it, the other subtracts it.

    Its key is bound to these two places, so that it is useless to a device that offers a copy of another member's key.

    Args:
        own: private key of one member.
        other: public key of the other member.
        h: hash of the round.
        pair: their places in the roster, in any order.
        size: length of a vector.
        width: bytes per value.

    Raises:
        MessageRefused: for `malformed`: `other` is not a key.
    """
    places = b"".join(place.to_bytes(2, "big") for place in sorted(pair))
    return _stream(_derived(shared_secret(own, other), h, b"sottovoce/secure-sum/pair-mask/v1" + places), size, width)


def shared_secret(own: X25519PrivateKey, other: bytes) -> bytes:
    """Return X25519 agreement of two keys, 32 bytes.

    Raises:
        MessageRefused: for `malformed`: `other` is not a key.
    """
    try:
        return own.exchange(X25519PublicKey.from_public_bytes(other))
    except ValueError as error:
        raise MessageRefused("malformed", "a member of the cell offers an invalid key") from error


def check_keys(*keys: bytes) -> None:
    """Refuse bytes that are not a public key, and keys for which every shared secret is equal.

    Raises:
        MessageRefused: for `malformed`: one of them is such a key.
    """
    for key in keys:
        shared_secret(_ANY, key)


def packed(vector: NDArray[np.uint64], width: int) -> bytes:
    """Pack values modulo 2^(8 width), little-endian."""
    return vector.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width].tobytes()


def unpacked(raw: bytes, width: int) -> NDArray[np.uint64]:
    """Return values from their packed form, uint64; the reverse of `packed`."""
    whole = np.zeros((len(raw) // width, 8), dtype=np.uint8)
    whole[:, :width] = np.frombuffer(raw, dtype=np.uint8).reshape(-1, width)
    return whole.view("<u8").ravel().astype(np.uint64)


def centred(vector: NDArray[np.uint64], width: int) -> NDArray[np.int64]:
    """Return centred representatives of numbers modulo 2^(8 width): the nearest to 0, int64."""
    shift = np.uint64(64 - 8 * width)
    return (vector << shift).view(np.int64) >> np.int64(shift)


def _derived(secret: bytes, h: bytes, purpose: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=h, info=purpose).derive(secret)


def _stream(key: bytes, size: int, width: int) -> NDArray[np.uint64]:
    return unpacked(Cipher(ChaCha20(key, _NONCE), mode=None).encryptor().update(bytes(size * width)), width)
