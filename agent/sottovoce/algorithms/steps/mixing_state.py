"""Durable state of a device that mixes a model, and packed model parameters."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.algorithms.state_codec import ModelSizeMismatch
from sottovoce.algorithms.steps.public.descent import is_in_range
from sottovoce.errors import MessageRefused
from sottovoce.net.wire.arrays import MAX_PARAMETERS
from sottovoce.net.wire.packed import read_numbers, write_numbers
from sottovoce.net.wire.v1 import envelope_pb2, state_pb2

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
    if not is_in_range(numerator):
        raise MessageRefused("range", "a value exceeds 2^60 in units of 2^-40")


def encode_state(state: Any, weight: int) -> bytes:
    """Encode a state together with its push-sum weight.

    Args:
        state: a PushSumState or a PairwiseState.
        weight: the push-sum weight in units of 2^-40.
    """
    saved = state_pb2.PushSumState(
        weight=weight,
        cycle=state.cycle,
        step=state.step,
        exhausted=state.exhausted,
        turn=state.turn,
        learnt=state.last_used_window,
    )
    write_numbers(saved, state.numerator)
    return saved.SerializeToString()


def decode_state(raw: bytes, size: int) -> tuple[int, dict[str, Any]]:
    """Return the saved push-sum weight and the state's other fields by name. Also decodes states from version 0.1.

    Args:
        raw: the encoded state.
        size: the length of the vector that this device mixes.

    Raises:
        ModelSizeMismatch: if the saved vector has a different length.
        ValueError: if the state is corrupt.
        DecodeError: if the bytes do not encode such a state.
    """
    saved = state_pb2.PushSumState.FromString(raw)
    try:
        numerator = read_numerator(saved)
    except MessageRefused as error:
        raise ValueError(f"the model is invalid: {error}") from error
    if numerator.size != size:
        raise ModelSizeMismatch(numerator.size, size)
    return saved.weight, {
        "numerator": numerator,
        "cycle": saved.cycle,
        "step": saved.step,
        "exhausted": saved.exhausted,
        "turn": saved.turn,
        "last_used_window": saved.learnt if saved.HasField("learnt") else None,
    }
