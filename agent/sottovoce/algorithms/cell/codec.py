"""Codec for secure-sum messages, and for the opened sums that a device knows."""

import numpy as np

from sottovoce.algorithms.cell.public.machine import Cells
from sottovoce.algorithms.cell.public.messages import CellMessage, decode_content
from sottovoce.algorithms.cell.public.state import CellState
from sottovoce.algorithms.state_codec import ModelSizeMismatch
from sottovoce.errors import MessageRefused
from sottovoce.net.wire.arrays import MAX_ENVELOPE_BYTES
from sottovoce.net.wire.v1 import secure_sum_pb2

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


class CellCodec:
    """State codec for devices that take part in secure sums; implements StateCodec."""

    def __init__(self, learner: Cells) -> None:
        self._size = learner.consumer.size

    def encode(self, state: CellState) -> bytes:
        """Encode the durable part of the state; see StateCodec.encode."""
        return secure_sum_pb2.CellState(
            cycle=state.cycle,
            exhausted=state.exhausted,
            simulated=state.simulated,
            slot=state.slot,
            numerator=b"" if state.numerator is None else state.numerator.astype("<i8").tobytes(),
            members=state.members,
        ).SerializeToString()

    def decode(self, raw: bytes) -> CellState:
        """Decode a state; see StateCodec.decode."""
        saved, numerator = secure_sum_pb2.CellState.FromString(raw), None
        if saved.numerator:
            if len(saved.numerator) != 8 * self._size:
                raise ModelSizeMismatch(len(saved.numerator) // 8, self._size)
            numerator = np.frombuffer(saved.numerator, dtype="<i8").astype(np.int64)
        return CellState(
            cycle=saved.cycle,
            exhausted=saved.exhausted,
            simulated=saved.simulated,
            slot=saved.slot,
            numerator=numerator,
            members=saved.members,
        )
