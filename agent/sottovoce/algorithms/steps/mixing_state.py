"""Durable state of a device that mixes a model, in one format from which push-sum and pairwise can both continue."""

from typing import Any

from sottovoce.algorithms.state_codec import OtherModel
from sottovoce.algorithms.steps.numerator import read_numerator
from sottovoce.errors import MessageRefused
from sottovoce.wire.packed import write_numbers
from sottovoce.wire.v1 import state_pb2


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
        OtherModel: if the saved vector has a different length.
        ValueError: if the state is corrupt.
        DecodeError: if the bytes do not encode such a state.
    """
    saved = state_pb2.PushSumState.FromString(raw)
    try:
        numerator = read_numerator(saved)
    except MessageRefused as error:
        raise ValueError(f"the model is invalid: {error}") from error
    if numerator.size != size:
        raise OtherModel(numerator.size, size)
    return saved.weight, {
        "numerator": numerator,
        "cycle": saved.cycle,
        "step": saved.step,
        "exhausted": saved.exhausted,
        "turn": saved.turn,
        "last_used_window": saved.learnt if saved.HasField("learnt") else None,
    }
