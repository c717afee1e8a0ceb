"""Wire format for shares of push-sum mass."""

from sottovoce.algorithms.push_sum.public.messages import MAX_WEIGHT, PushSumShare
from sottovoce.algorithms.steps.numerator import read_numerator
from sottovoce.algorithms.steps.public.descent import MAX_NUMERATOR
from sottovoce.errors import MessageRefused
from sottovoce.wire.limits import MAX_PARAMETERS
from sottovoce.wire.packed import write_numbers
from sottovoce.wire.v1 import envelope_pb2


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
    numerator = message.numerator
    if numerator.ndim != 1 or not 1 <= numerator.size <= MAX_PARAMETERS:
        raise MessageRefused(
            "shape", f"the numerator has shape {numerator.shape}; expected 1 to {MAX_PARAMETERS} values"
        )
    if numerator.min() < -MAX_NUMERATOR or numerator.max() > MAX_NUMERATOR:
        raise MessageRefused("range", "a numerator exceeds 2^60 in units of 2^-40")
    if not 0 < message.weight <= MAX_WEIGHT:
        raise MessageRefused("range", "the weight is not in (0, 4]")
