"""Large messages, which the sender splits into parts and the receiver reassembles."""

import hashlib
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from sottovoce.errors import MessageRefused
from sottovoce.net.wire.arrays import MAX_ENVELOPE_BYTES
from sottovoce.net.wire.v1.parts_pb2 import Part, PartReceipt

_M = TypeVar("_M", bound=Message)
_DIGEST_BYTES = 32
_PART = b"\x7a"  # the tag of field 15, bytes, with which an Envelope cannot begin
_RECEIPT = b"\x78"  # the tag of field 15, a number
_MAX_PARTS = 4096


class SplitMessage:
    """A message that is sent in parts.

    Args:
        message: the whole message.
        max_bytes: maximum size of a piece in bytes.

    Attributes:
        digest: SHA-256 of the message.
        count: number of parts.
    """

    def __init__(self, message: bytes, max_bytes: int) -> None:
        self._message = message
        self._max_bytes = max_bytes
        self.digest = hashlib.sha256(message).digest()
        self.count = -(-len(message) // max_bytes)

    def part(self, index: int) -> bytes:
        """Return the serialised part at `index`."""
        piece = self._message[index * self._max_bytes : (index + 1) * self._max_bytes]
        part = Part(message=self.digest, index=index, count=self.count, piece=piece)
        return part.SerializeToString(deterministic=True)

    def next_part(self, answer: bytes) -> int | None:
        """Return the index of the part to send next, given the answer to a part.

        The result is None if the answer is to the whole message.

        Raises:
            MessageRefused: for `malformed`, if the answer asks for a part that does not exist.
        """
        if not answer.startswith(_RECEIPT):
            return None
        receipt = _decode(PartReceipt, answer)
        if receipt.next >= self.count:
            raise MessageRefused("malformed", "the answer requests a part that does not exist")
        return int(receipt.next)


def is_part(raw: bytes) -> bool:
    """Return whether the bytes are part of a message rather than a whole message."""
    return raw.startswith(_PART)


def decode_part(raw: bytes) -> Part:
    """Decode a part.

    Raises:
        MessageRefused: with reason `malformed`, if the bytes, digest or position of the part are invalid.
    """
    part = _decode(Part, raw)
    if len(part.message) != _DIGEST_BYTES or not 2 <= part.count <= _MAX_PARTS or part.index >= part.count:
        raise MessageRefused("malformed", "a message part's digest or position in the message is invalid")
    return part


class Assembly:
    """The parts of one message that have arrived so far.

    Args:
        part: any part of the message; the constructor does not add it.

    Attributes:
        size: bytes of the parts that have arrived.
    """

    def __init__(self, part: Part) -> None:
        self._digest: bytes = part.message
        self._count: int = part.count
        self._pieces: dict[int, bytes] = {}
        self.size = 0

    @property
    def arrived(self) -> int:
        """Number of parts that have arrived."""
        return len(self._pieces)

    def fits(self, part: Part) -> bool:
        """Return whether this part belongs to this message."""
        return bool(part.message == self._digest and part.count == self._count)

    def add(self, part: Part) -> bytes | None:
        """Add a part of this message; adding a part again has no effect.

        Returns:
            The whole message once all parts have arrived; None before that.

        Raises:
            MessageRefused: for `malformed`, if the parts do not match the digest; for `size`, if the message is too
                large.
        """
        if part.index not in self._pieces:
            if self.size + len(part.piece) > MAX_ENVELOPE_BYTES:
                raise MessageRefused("size", f"the parts of a message exceed the limit of {MAX_ENVELOPE_BYTES} bytes")
            self.size += len(part.piece)
            self._pieces[part.index] = part.piece
        if len(self._pieces) < self._count:
            return None
        message = b"".join(self._pieces[index] for index in range(self._count))
        if hashlib.sha256(message).digest() != self._digest:
            raise MessageRefused("malformed", "the parts of a message do not match its digest")
        return message

    def receipt(self) -> bytes:
        """Return the answer to a part, which asks for the first missing part."""
        missing = next(index for index in range(self._count) if index not in self._pieces)
        return PartReceipt(next=missing).SerializeToString(deterministic=True)


def _decode(kind: type[_M], raw: bytes) -> _M:
    try:
        return kind.FromString(raw)
    except DecodeError as error:
        raise MessageRefused("malformed", "a message part or its receipt is not a valid protobuf message") from error
