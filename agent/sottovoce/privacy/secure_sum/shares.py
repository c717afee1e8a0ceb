"""Shamir shares of a member's two secrets, and their encryption for the other members.

The shares of a secret are the values, at 1, 2, …, of a polynomial over the integers modulo PRIME. Its value at 0 is the
secret, and its other coefficients are uniformly random (Shamir 1979). Decision 0057 says why no library does this.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from sottovoce.errors import MessageRefused
from sottovoce.privacy.secure_sum.masks import shared_secret

PRIME = 2**256 + 297
"""The smallest prime above every 32-byte secret."""

SHARE_BYTES = 33
SEALED_BYTES = 2 * SHARE_BYTES + 16

_NONCE = bytes(12)  # each key seals only one message


@dataclass(frozen=True, slots=True)
class Shares:
    """One recipient's shares of a dealer's two secrets, SHARE_BYTES each.

    Attributes:
        seed: share of the seed for the dealer's own mask.
        mask_key: share of the private key for the dealer's pair masks.
    """

    seed: bytes
    mask_key: bytes


def split_secret(secret: bytes, members: int, threshold: int, draw: Callable[[int], int]) -> list[bytes]:
    """Split a 32-byte secret into one share per member, such that any `threshold` shares determine it.

    Args:
        secret: the secret.
        members: the number of shares.
        threshold: the number of shares that determine the secret; fewer are independent of it.
        draw: returns a secret, uniformly random number below its argument, as `secrets.randbelow` does. It is passed in
            because learners, which are pure, import this module.
    """
    coefficients = [int.from_bytes(secret, "big"), *(draw(PRIME) for _ in range(threshold - 1))]
    shares = []
    for x in range(1, members + 1):
        value = 0
        for coefficient in reversed(coefficients):
            value = (value * x + coefficient) % PRIME
        shares.append(value.to_bytes(SHARE_BYTES, "big"))
    return shares


class Combiner:
    """Reconstructs secrets from the shares of a fixed set of members.

    Args:
        indices: roster indices of the members whose shares are available; as many as the threshold requires.
    """

    def __init__(self, indices: tuple[int, ...]) -> None:
        self._indices = indices
        self._weights = [_weight(index + 1, [other + 1 for other in indices if other != index]) for index in indices]

    def secret(self, shares: Mapping[int, bytes]) -> bytes:
        """Reconstruct a 32-byte secret.

        The result is arbitrary if a share is wrong, so compare it with the commitment.

        Args:
            shares: shares by roster index.
        """
        numbers = (int.from_bytes(shares[index], "big") for index in self._indices)
        secret = sum(weight * number for weight, number in zip(self._weights, numbers, strict=True)) % PRIME
        return (secret % 2**256).to_bytes(32, "big")


def _weight(x: int, others: list[int]) -> int:
    """Return the Lagrange weight, at 0, of the share at x."""
    numerator = denominator = 1
    for other in others:
        numerator = numerator * other % PRIME
        denominator = denominator * (other - x) % PRIME
    return numerator * pow(denominator, -1, PRIME) % PRIME


def seal_shares(
    private_key: X25519PrivateKey, public_key: bytes, roster: bytes, sender: int, recipient: int, shares: Shares
) -> bytes:
    """Seal shares so that only one other member of this roster can open them.

    Args:
        private_key: the sender's private share key.
        public_key: the recipient's public share key.
        roster: roster digest.
        sender: the sender's roster index.
        recipient: the recipient's roster index.
        shares: shares of the sender's secrets.

    Raises:
        MessageRefused: for `malformed`, if `public_key` is not a valid key.
    """
    cipher, context = _cipher(private_key, public_key, roster, sender, recipient)
    return cipher.encrypt(_NONCE, shares.seed + shares.mask_key, context)


def open_shares(
    private_key: X25519PrivateKey, public_key: bytes, roster: bytes, sender: int, recipient: int, raw: bytes
) -> Shares:
    """Open shares sealed by `seal_shares`, with the recipient's private key and the sender's public key.

    Raises:
        MessageRefused: for `cell`, if the sender did not seal valid shares for this recipient.
    """
    cipher, context = _cipher(private_key, public_key, roster, sender, recipient)
    try:
        plain = cipher.decrypt(_NONCE, raw, context)
    except InvalidTag as error:
        raise MessageRefused("cell", "a cell member did not seal its shares for this device") from error
    parts = plain[:SHARE_BYTES], plain[SHARE_BYTES:]
    if len(raw) != SEALED_BYTES or any(int.from_bytes(part, "big") >= PRIME for part in parts):
        raise MessageRefused("cell", "a cell member sealed data that is not a share")
    return Shares(*parts)


def _cipher(
    private_key: X25519PrivateKey, public_key: bytes, roster: bytes, sender: int, recipient: int
) -> tuple[ChaCha20Poly1305, bytes]:
    context = b"sottovoce/secure-sum/shares/v1" + sender.to_bytes(2, "big") + recipient.to_bytes(2, "big") + roster
    key = HKDF(algorithm=SHA256(), length=32, salt=roster, info=context).derive(shared_secret(private_key, public_key))
    return ChaCha20Poly1305(key), context
