"""The durable state of push-sum learners."""

from sottovoce.algorithms.push_sum.public.machine import PushSum, PushSumState
from sottovoce.algorithms.steps.mixing_state import decoded, encoded


class PushSumCodec:
    """Implementation of StateCodec for push-sum learners."""

    def __init__(self, learner: PushSum) -> None:
        self._size, self._state_type = learner.schedule.width, learner.state_type

    def encode(self, state: PushSumState) -> bytes:
        """See StateCodec.encode."""
        return encoded(state, state.weight)

    def decode(self, raw: bytes) -> PushSumState:
        """Decode a state, including one of version 0.1; see StateCodec.decode."""
        weight, saved = decoded(raw, self._size)
        return self._state_type(weight=weight, **saved)
