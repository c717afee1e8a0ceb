"""Packed parameters of a model in a message or a state, including those of version 0.1."""

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import MessageRefused
from sottovoce.wire.packed import take_numbers
from sottovoce.wire.v1 import envelope_pb2, state_pb2

Holder = envelope_pb2.PushSumShare | state_pb2.PushSumState
"""A message that holds a numerator."""

_ENCODED_BEFORE = np.dtype("<i8")


def numerator_of(message: Holder) -> NDArray[np.int64]:
    """Return the numerator in a message, also in one of version 0.1, int64[P].

    Raises:
        MessageRefused: for `shape` or `malformed`.
    """
    if len(message.numerator) % _ENCODED_BEFORE.itemsize:
        raise MessageRefused("shape", "the numerator does not contain a whole number of parameters")
    if message.numerator:
        return np.frombuffer(message.numerator, dtype=_ENCODED_BEFORE).astype(np.int64)
    return take_numbers(message)
