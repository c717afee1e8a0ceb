"""Secrecy between two devices through a broker that may read, keep, repeat and forge anything.

Each device has an X25519 key pair from its start to its stop, which is never written to a disk. Two devices derive a
key for each direction (HKDF-SHA256), under which messages are sealed with ChaCha20-Poly1305 and a counter. After a
restart no one can open messages captured before it; messages captured since are refused as repetitions.
"""

import itertools
from collections.abc import Iterator

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from sottovoce.errors import MessageRefused
from sottovoce.identity.framing import framed

_DOMAIN = b"sottovoce/mqtt-frame/v1"
_NONCE_BYTES = 12
_WINDOW = 1024  # how far a counter may lag behind the newest: messages may arrive in any order
_END = 2**63


class SessionKey:
    """Key pair of this device since its start."""

    def __init__(self) -> None:
        self._private = X25519PrivateKey.generate()
        self.public = self._private.public_key().public_bytes_raw()
        self._counters = itertools.count(1)

    def shared_with(self, own: str, other: str, other_key: bytes) -> "Channel":
        """Return a channel between this device and another.

        Args:
            own: node id of this device.
            other: node id of the other device.
            other_key: verified session key of the other device, 32 bytes.

        Raises:
            MessageRefused: for `malformed`: it is not a key.
        """
        try:
            secret = self._private.exchange(X25519PublicKey.from_public_bytes(other_key))
        except ValueError as error:
            raise MessageRefused("malformed", f"the session key of {other} is invalid") from error
        outward = _derived(secret, (own.encode(), self.public), (other.encode(), other_key))
        inward = _derived(secret, (other.encode(), other_key), (own.encode(), self.public))
        return Channel(outward, inward, self._counters)


class Channel:
    """Both directions between two session keys.

    Args:
        outward: the key with which this device seals.
        inward: the key with which it opens.
        counters: rising numbers, shared by all channels of this device's key; otherwise two channels between the same
            keys would use a nonce twice.
    """

    def __init__(self, outward: bytes, inward: bytes, counters: Iterator[int]) -> None:
        self._outward = ChaCha20Poly1305(outward)
        self._inward = ChaCha20Poly1305(inward)
        self._counters = counters
        self._newest = 0
        self._seen = 0  # bit i: the counter i below the newest

    def seal(self, content: bytes) -> tuple[int, bytes]:
        """Seal a message; return an unused counter, and the message sealed under it."""
        counter = next(self._counters)
        return counter, self._outward.encrypt(_nonce(counter), content, None)

    def open(self, counter: int, sealed: bytes) -> bytes:
        """Open a sealed message, at most once.

        Raises:
            MessageRefused: for `replayed`: it was opened before, or is too old to tell; or `forged`: it was not sealed
                by the other device for this one, or was altered.
        """
        ahead = counter - self._newest
        if ahead <= -_WINDOW or not 0 < counter < _END or (ahead <= 0 and self._seen >> -ahead & 1):
            raise MessageRefused("replayed", "a message came a second time, or far too late")
        try:
            content = self._inward.decrypt(_nonce(counter), sealed, None)
        except InvalidTag as error:
            raise MessageRefused("forged", "a message was altered, or sealed by someone else") from error
        if ahead > 0:
            older = self._seen << ahead if ahead < _WINDOW else 0
            self._newest, self._seen = counter, (older | 1) & (2**_WINDOW - 1)
        else:
            self._seen |= 1 << -ahead
        return content


def _nonce(counter: int) -> bytes:
    return counter.to_bytes(_NONCE_BYTES, "big")


def _derived(secret: bytes, sender: tuple[bytes, bytes], recipient: tuple[bytes, bytes]) -> bytes:
    info = framed(_DOMAIN, (*sender, *recipient))
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(secret)
