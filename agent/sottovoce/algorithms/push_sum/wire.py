"""Shares of push-sum mass."""

import numpy as np

from sottovoce.algorithms.push_sum.public.messages import MAX_NUMERATOR, MAX_WEIGHT, PushSumShare
from sottovoce.errors import MessageRefused
from sottovoce.wire.limits import MAX_PARAMETERS
from sottovoce.wire.v1 import envelope_pb2

_ENCODED = np.dtype("<i8")


def to_bytes(message: PushSumShare) -> bytes:
    """See PayloadCodec.to_bytes."""
    return envelope_pb2.PushSumShare(
        numerator=message.numerator.astype(_ENCODED).tobytes(), weight=message.weight
    ).SerializeToString(deterministic=True)


def from_bytes(payload: bytes) -> PushSumShare:
    """See PayloadCodec.from_bytes."""
    share = envelope_pb2.PushSumShare.FromString(payload)
    if len(share.numerator) % _ENCODED.itemsize:
        raise MessageRefused("shape", "the numerator is not a whole number of parameters")
    numerator = np.frombuffer(share.numerator, dtype=_ENCODED).astype(np.int64)
    numerator.setflags(write=False)
    return PushSumShare(numerator=numerator, weight=share.weight)


def check(message: PushSumShare) -> None:
    """See PayloadCodec.check."""
    numerator = message.numerator
    if numerator.ndim != 1 or not 1 <= numerator.size <= MAX_PARAMETERS:
        raise MessageRefused("shape", f"the numerator has a shape of {numerator.shape}, not of 1 to {MAX_PARAMETERS}")
    if numerator.min() < -MAX_NUMERATOR or numerator.max() > MAX_NUMERATOR:
        raise MessageRefused("range", "a numerator is beyond 2^60 in units of 2^-40")
    if not 0 < message.weight <= MAX_WEIGHT:
        raise MessageRefused("range", "the weight is not in (0, 4]")
