"""Shamir shares of a member's two secrets, and their encryption for the other members.

A library splits the secrets, but this module reconstructs them. A leader reconstructs the secrets of all cell members
at the same places, and the library would invert the same numbers for each member. At that point, these values are no
longer secret.
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
"""The smallest prime above every 32-byte secret."""

SHARE_BYTES = 33
SEALED_BYTES = 2 * SHARE_BYTES + 16

_NONCE = bytes(12)  # each key seals only one message


@dataclass(frozen=True, slots=True)
class Shares:
    """One recipient's shares of a dealer's two secrets, SHARE_BYTES each.

    Attributes:
        seed: share of the seed of the dealer's own mask.
        mask_key: share of the private key for the dealer's pair masks.
    """

    seed: bytes
    mask_key: bytes


def split_secret(secret: bytes, members: int, threshold: int) -> list[bytes]:
    """Split a 32-byte secret into one share per member, of which any `threshold` shares determine the secret."""
    from shamirs import shares  # not needed on devices without a cell

    found = shares(int.from_bytes(secret, "big"), members, modulus=PRIME, threshold=threshold)
    return [one.value.to_bytes(SHARE_BYTES, "big") for one in found]


class Combiner:
    """Reconstructs secrets from shares at fixed places.

    Args:
        places: places of the members whose shares are available, from 0; as many as the threshold requires.
    """

    def __init__(self, places: tuple[int, ...]) -> None:
        self._places = places
        self._weights = [_weight(place + 1, [other + 1 for other in places if other != place]) for place in places]

    def secret(self, shares: Mapping[int, bytes]) -> bytes:
        """Reconstruct a 32-byte secret.

        The result is arbitrary if a share is wrong, so compare it with the commitment.

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
    """Seal shares so that only one other member of this roster can open them.

    Args:
        own: the sender's private share key.
        other: the recipient's public share key.
        roster: roster digest.
        sender: the sender's place.
        recipient: the recipient's place.
        shares: shares of the sender's secrets.

    Raises:
        MessageRefused: for `malformed`, if `other` is not a valid key.
    """
    cipher, names = _cipher(own, other, roster, sender, recipient)
    return cipher.encrypt(_NONCE, shares.seed + shares.mask_key, names)


def open_shares(own: X25519PrivateKey, other: bytes, roster: bytes, sender: int, recipient: int, raw: bytes) -> Shares:
    """Open shares sealed by `seal_shares`; `own` is the recipient's private key and `other` the sender's public key.

    Raises:
        MessageRefused: for `cell`, if the sender did not seal valid shares for this recipient.
    """
    cipher, names = _cipher(own, other, roster, sender, recipient)
    try:
        plain = cipher.decrypt(_NONCE, raw, names)
    except InvalidTag as error:
        raise MessageRefused("cell", "a cell member did not seal its shares for this device") from error
    parts = plain[:SHARE_BYTES], plain[SHARE_BYTES:]
    if len(raw) != SEALED_BYTES or any(int.from_bytes(part, "big") >= PRIME for part in parts):
        raise MessageRefused("cell", "a cell member sealed data that is not a share")
    return Shares(*parts)


def _cipher(
    own: X25519PrivateKey, other: bytes, roster: bytes, sender: int, recipient: int
) -> tuple[ChaCha20Poly1305, bytes]:
    names = b"sottovoce/secure-sum/shares/v1" + sender.to_bytes(2, "big") + recipient.to_bytes(2, "big") + roster
    key = HKDF(algorithm=SHA256(), length=32, salt=roster, info=names).derive(shared_secret(own, other))
    return ChaCha20Poly1305(key), names
