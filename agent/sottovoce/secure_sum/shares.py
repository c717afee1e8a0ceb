"""Shamir's shares of a member's two secrets, and their encryption for the other members.

A library splits a secret. It is reconstructed here, because a leader does that for all members of a cell at the same
places, where the library would invert the same numbers again for each; nothing is secret any more by then.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from sottovoce.errors import MessageRefused
from sottovoce.secure_sum.masks import shared_secret

PRIME = 2**256 + 297
"""The least prime above every secret of 32 bytes."""

SHARE_BYTES = 33
SEALED_BYTES = 2 * SHARE_BYTES + 16

_NONCE = bytes(12)  # a key seals one message


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of another member's secrets that one member holds, SHARE_BYTES each.

    Attributes:
        seed: share of the seed of its own mask.
        mask_key: share of the private key of its masks in pairs.
    """

    seed: bytes
    mask_key: bytes


def split_secret(secret: bytes, members: int, threshold: int) -> list[bytes]:
    """Split a secret of 32 bytes into a share for each member, any `threshold` of which determine it."""
    from shamirs import shares  # not needed on devices without a cell

    found = shares(int.from_bytes(secret, "big"), members, modulus=PRIME, threshold=threshold)
    return [one.value.to_bytes(SHARE_BYTES, "big") for one in found]


class Combiner:
    """Reconstruction of secrets from shares at fixed places.

    Args:
        places: places of the members whose shares are available, from 0; as many as the threshold requires.
    """

    def __init__(self, places: tuple[int, ...]) -> None:
        self._places = places
        self._weights = [_weight(place + 1, [other + 1 for other in places if other != place]) for place in places]

    def secret(self, shares: Mapping[int, bytes]) -> bytes:
        """Reconstruct a secret of 32 bytes; it is arbitrary if a share is wrong, so compare it with the commitment.

        Args:
            shares: shares by place.
        """
        numbers = (int.from_bytes(shares[place], "big") for place in self._places)
        whole = sum(weight * number for weight, number in zip(self._weights, numbers, strict=True)) % PRIME
        return (whole % 2**256).to_bytes(32, "big")


def _weight(x: int, others: list[int]) -> int:
    """Return the Lagrange weight, at 0, of the share at x."""
    above = below = 1
    for other in others:
        above = above * other % PRIME
        below = below * (other - x) % PRIME
    return above * pow(below, -1, PRIME) % PRIME


def seal_shares(
    own: X25519PrivateKey, other: bytes, roster: bytes, sender: int, recipient: int, shares: Shares
) -> bytes:
    """Seal shares for one other member of this roster, and for no other recipient.

    Args:
        own: the sender's key for shares.
        other: the recipient's public key.
        roster: the roster's digest.
        sender: place of the sender.
        recipient: place of the recipient.
        shares: shares of the sender's secrets.

    Raises:
        MessageRefused: for `malformed`: there is no such key.
    """
    cipher, names = _cipher(own, other, roster, sender, recipient)
    return cipher.encrypt(_NONCE, shares.seed + shares.mask_key, names)


def open_shares(own: X25519PrivateKey, other: bytes, roster: bytes, sender: int, recipient: int, raw: bytes) -> Shares:
    """Open shares that were `sealed`; here `own` is the recipient's key.

    Raises:
        MessageRefused: for `cell`: the sender sealed no shares for this recipient.
    """
    cipher, names = _cipher(own, other, roster, sender, recipient)
    try:
        plain = cipher.decrypt(_NONCE, raw, names)
    except InvalidTag as error:
        raise MessageRefused("cell", "a member of the cell sealed no shares for this device") from error
    parts = plain[:SHARE_BYTES], plain[SHARE_BYTES:]
    if len(raw) != SEALED_BYTES or any(int.from_bytes(part, "big") >= PRIME for part in parts):
        raise MessageRefused("cell", "a member of the cell sealed something that is not a share")
    return Shares(*parts)


def _cipher(
    own: X25519PrivateKey, other: bytes, roster: bytes, sender: int, recipient: int
) -> tuple[ChaCha20Poly1305, bytes]:
    names = b"sottovoce/secure-sum/shares/v1" + sender.to_bytes(2, "big") + recipient.to_bytes(2, "big") + roster
    key = HKDF(algorithm=SHA256(), length=32, salt=roster, info=names).derive(shared_secret(own, other))
    return ChaCha20Poly1305(key), names
