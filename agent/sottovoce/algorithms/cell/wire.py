"""Wire format of the messages of secure sums."""

from sottovoce.algorithms.cell.public.messages import CellMessage, content_of
from sottovoce.errors import MessageRefused
from sottovoce.wire.limits import MAX_ENVELOPE_BYTES
from sottovoce.wire.v1 import secure_sum_pb2

_MAX = MAX_ENVELOPE_BYTES - 64 * 2**10


def to_bytes(message: CellMessage) -> bytes:
    """See PayloadCodec.to_bytes."""
    return secure_sum_pb2.CellMessage(content=message.encoded).SerializeToString(deterministic=True)


def from_bytes(payload: bytes) -> CellMessage:
    """See PayloadCodec.from_bytes."""
    return CellMessage(content_of(secure_sum_pb2.CellMessage.FromString(payload).content))


def check(message: CellMessage) -> None:
    """See PayloadCodec.check."""
    if len(message.encoded) > _MAX:
        raise MessageRefused("shape", "a message of a secure sum is longer than an envelope holds")
