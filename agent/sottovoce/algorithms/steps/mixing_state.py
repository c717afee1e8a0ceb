"""Durable state of a device that mixes a model: one form, from which push-sum and pairs can both continue."""

from typing import Any

from sottovoce.algorithms.state_codec import OtherModel
from sottovoce.algorithms.steps.numerator import numerator_of
from sottovoce.errors import MessageRefused
from sottovoce.wire.packed import put_numbers
from sottovoce.wire.v1 import state_pb2


def encoded(state: Any, weight: int) -> bytes:
    """Encode a state with its push-sum weight.

    Args:
        state: a PushSumState or a PairwiseState.
        weight: in units of 2^-40.
    """
    saved = state_pb2.PushSumState(
        weight=weight,
        cycle=state.cycle,
        step=state.step,
        exhausted=state.exhausted,
        turn=state.turn,
        learnt=state.learnt,
    )
    put_numbers(saved, state.numerator)
    return saved.SerializeToString()


def decoded(raw: bytes, size: int) -> tuple[int, dict[str, Any]]:
    """Return the push-sum weight that was saved, and the state's other fields by name, also for a state of version 0.1.

    Args:
        raw: the bytes.
        size: length of the vector that this device mixes.

    Raises:
        OtherModel: if the saved vector has another length.
        ValueError: if the state is damaged.
        DecodeError: if the bytes are not such a state.
    """
    saved = state_pb2.PushSumState.FromString(raw)
    try:
        numerator = numerator_of(saved)
    except MessageRefused as error:
        raise ValueError(f"its model: {error}") from error
    if numerator.size != size:
        raise OtherModel(numerator.size, size)
    return saved.weight, {
        "numerator": numerator,
        "cycle": saved.cycle,
        "step": saved.step,
        "exhausted": saved.exhausted,
        "turn": saved.turn,
        "learnt": saved.learnt if saved.HasField("learnt") else None,
    }
