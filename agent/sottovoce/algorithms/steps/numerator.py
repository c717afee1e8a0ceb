"""Packed model parameters in a message or a state, including the format of version 0.1."""

import numpy as np
from numpy.typing import NDArray

from sottovoce.algorithms.steps.public.descent import MAX_NUMERATOR
from sottovoce.errors import MessageRefused
from sottovoce.wire.limits import MAX_PARAMETERS
from sottovoce.wire.packed import read_numbers
from sottovoce.wire.v1 import envelope_pb2, state_pb2

Holder = envelope_pb2.PushSumShare | state_pb2.PushSumState
"""A message that contains a numerator."""

_OLD_DTYPE = np.dtype("<i8")


def read_numerator(message: Holder) -> NDArray[np.int64]:
    """Return the numerator in a message, int64[P], which may be in the format of version 0.1.

    Raises:
        MessageRefused: with the reason `shape` or `malformed`.
    """
    if len(message.numerator) % _OLD_DTYPE.itemsize:
        raise MessageRefused("shape", "the numerator does not contain a whole number of parameters")
    if message.numerator:
        return np.frombuffer(message.numerator, dtype=_OLD_DTYPE).astype(np.int64)
    return read_numbers(message)


def check_numerator(numerator: NDArray[np.int64]) -> None:
    """Check that a numerator has a valid shape and that its values are in range.

    Raises:
        MessageRefused: with the reason `shape` or `range`.
    """
    if numerator.ndim != 1 or not 1 <= numerator.size <= MAX_PARAMETERS:
        raise MessageRefused("shape", f"the values have shape {numerator.shape}; expected 1 to {MAX_PARAMETERS} values")
    if numerator.min() < -MAX_NUMERATOR or numerator.max() > MAX_NUMERATOR:
        raise MessageRefused("range", "a value exceeds 2^60 in units of 2^-40")
