"""End-to-end encryption between two devices through a broker that may read, store, replay and forge anything.

Each device has an X25519 key pair that lasts from its start to its stop and is never written to disk. Two devices
derive one key for each direction (HKDF-SHA256) and seal messages under it with ChaCha20-Poly1305 and a counter. After a
restart, messages captured earlier can no longer be opened, and replays of messages captured since then are refused.
"""

import itertools
from collections.abc import Iterator

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from sottovoce.errors import MessageRefused
from sottovoce.fleet.framing import frame_fields

_DOMAIN = b"sottovoce/mqtt-frame/v1"
_NONCE_BYTES = 12
_WINDOW = 1024  # how far a counter may lag behind the newest one, because messages may arrive out of order
_END = 2**63


class SessionKey:
    """This device's X25519 key pair, which is generated at its start."""

    def __init__(self) -> None:
        self._private = X25519PrivateKey.generate()
        self.public = self._private.public_key().public_bytes_raw()
        self._counters = itertools.count(1)

    def channel_to(self, own_id: str, peer: str, peer_key: bytes) -> "Channel":
        """Return the channel between this device and another.

        Args:
            own_id: this device's node id.
            peer: the other device's node id.
            peer_key: the other device's verified session key, 32 bytes.

        Raises:
            MessageRefused: with reason `malformed` if `peer_key` is not a valid key.
        """
        try:
            secret = self._private.exchange(X25519PublicKey.from_public_bytes(peer_key))
        except ValueError as error:
            raise MessageRefused("malformed", f"{peer}'s session key is invalid") from error
        outward = _derive_key(secret, (own_id.encode(), self.public), (peer.encode(), peer_key))
        inward = _derive_key(secret, (peer.encode(), peer_key), (own_id.encode(), self.public))
        return Channel(outward, inward, self._counters)


class Channel:
    """A channel between two devices that seals outgoing messages and opens incoming ones.

    Args:
        outward: the key with which this device seals messages.
        inward: the key with which this device opens messages.
        counters: increasing numbers, shared by all channels of this device's session key; otherwise two channels
            between the same pair of keys would use a nonce twice.
    """

    def __init__(self, outward: bytes, inward: bytes, counters: Iterator[int]) -> None:
        self._outward = ChaCha20Poly1305(outward)
        self._inward = ChaCha20Poly1305(inward)
        self._counters = counters
        self._newest = 0
        self._seen = 0  # bit i is set if the counter `_newest - i` has been seen

    def seal(self, content: bytes) -> tuple[int, bytes]:
        """Seal a message under the next unused counter; return the counter and the sealed message."""
        counter = next(self._counters)
        return counter, self._outward.encrypt(_nonce(counter), content, None)

    def open(self, counter: int, sealed: bytes) -> bytes:
        """Open a sealed message; each message can be opened only once.

        Raises:
            MessageRefused: with reason `replayed` if the message was opened before or is too old to tell, or `forged`
                if the other device did not seal it for this one or it was altered.
        """
        offset = counter - self._newest
        if offset <= -_WINDOW or not 0 < counter < _END or (offset <= 0 and self._seen >> -offset & 1):
            raise MessageRefused("replayed", "a message arrived a second time or far too late")
        try:
            content = self._inward.decrypt(_nonce(counter), sealed, None)
        except InvalidTag as error:
            raise MessageRefused("forged", "a message was altered or was sealed by someone else") from error
        if offset > 0:
            older = self._seen << offset if offset < _WINDOW else 0
            self._newest, self._seen = counter, (older | 1) & (2**_WINDOW - 1)
        else:
            self._seen |= 1 << -offset
        return content


def _nonce(counter: int) -> bytes:
    return counter.to_bytes(_NONCE_BYTES, "big")


def _derive_key(secret: bytes, sender: tuple[bytes, bytes], recipient: tuple[bytes, bytes]) -> bytes:
    info = frame_fields(_DOMAIN, (*sender, *recipient))
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(secret)
