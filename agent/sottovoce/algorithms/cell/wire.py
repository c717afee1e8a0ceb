"""Wire format for secure-sum messages."""

from sottovoce.algorithms.cell.public.messages import CellMessage, decode_content
from sottovoce.errors import MessageRefused
from sottovoce.wire.limits import MAX_ENVELOPE_BYTES
from sottovoce.wire.v1 import secure_sum_pb2

_MAX = MAX_ENVELOPE_BYTES - 64 * 2**10


def to_bytes(message: CellMessage) -> bytes:
    """Encode a message; see PayloadCodec.to_bytes."""
    return secure_sum_pb2.CellMessage(content=message.encoded).SerializeToString(deterministic=True)


def from_bytes(payload: bytes) -> CellMessage:
    """Decode a message; see PayloadCodec.from_bytes."""
    return CellMessage(decode_content(secure_sum_pb2.CellMessage.FromString(payload).content))


def check(message: CellMessage) -> None:
    """Check the message length; see PayloadCodec.check."""
    if len(message.encoded) > _MAX:
        raise MessageRefused("shape", "a secure-sum message is too long for an envelope")
