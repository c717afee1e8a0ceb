"""Codec for shares of push-sum mass, and for a device's durable state."""

from sottovoce.algorithms.push_sum.public.machine import PushSum, PushSumState
from sottovoce.algorithms.push_sum.public.messages import MAX_WEIGHT, PushSumShare
from sottovoce.algorithms.steps.mixing_state import check_numerator, decode_state, encode_state, read_numerator
from sottovoce.errors import MessageRefused
from sottovoce.net.wire.packed import write_numbers
from sottovoce.net.wire.v1 import envelope_pb2


def to_bytes(message: PushSumShare) -> bytes:
    """Encode a share; see PayloadCodec.to_bytes."""
    share = envelope_pb2.PushSumShare(weight=message.weight)
    write_numbers(share, message.numerator)
    return share.SerializeToString(deterministic=True)


def from_bytes(payload: bytes) -> PushSumShare:
    """Decode a share, which may come from an outbox saved by version 0.1; see PayloadCodec.from_bytes."""
    share = envelope_pb2.PushSumShare.FromString(payload)
    numerator = read_numerator(share)
    numerator.setflags(write=False)
    return PushSumShare(numerator=numerator, weight=share.weight)


def check(message: PushSumShare) -> None:
    """Check that a share has a valid shape and that its values are in range; see PayloadCodec.check."""
    check_numerator(message.numerator)
    if not 0 < message.weight <= MAX_WEIGHT:
        raise MessageRefused("range", "the weight is not in (0, 4]")


class PushSumCodec:
    """State codec for push-sum learners; implements StateCodec."""

    def __init__(self, learner: PushSum) -> None:
        self._size, self._state_type = learner.schedule.width, learner.state_type

    def encode(self, state: PushSumState) -> bytes:
        """Encode the durable part of the state; see StateCodec.encode."""
        return encode_state(state, state.weight)

    def decode(self, raw: bytes) -> PushSumState:
        """Decode a state, which may have been saved by version 0.1; see StateCodec.decode."""
        weight, saved = decode_state(raw, self._size)
        return self._state_type(weight=weight, **saved)
