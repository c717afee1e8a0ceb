"""Codec for the push-sum learners' durable state."""

from sottovoce.algorithms.push_sum.public.machine import PushSum, PushSumState
from sottovoce.algorithms.steps.mixing_state import decode_state, encode_state


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
