"""The durable state of push-sum learners."""

from sottovoce.algorithms.push_sum.public.machine import PushSum, PushSumState
from sottovoce.algorithms.state_codec import OtherModel
from sottovoce.algorithms.steps.numerator import numerator_of
from sottovoce.errors import MessageRefused
from sottovoce.wire.packed import put
from sottovoce.wire.v1 import state_pb2


class PushSumCodec:
    """Implements StateCodec for push-sum learners."""

    def __init__(self, learner: PushSum) -> None:
        self._size = learner.schedule.width

    def encode(self, state: PushSumState) -> bytes:
        """See StateCodec.encode."""
        saved = state_pb2.PushSumState(
            weight=state.weight,
            cycle=state.cycle,
            step=state.step,
            exhausted=state.exhausted,
            turn=state.turn,
        )
        put(saved, state.numerator)
        return saved.SerializeToString()

    def decode(self, raw: bytes) -> PushSumState:
        """See StateCodec.decode; also of version 0.1."""
        saved = state_pb2.PushSumState.FromString(raw)
        try:
            numerator = numerator_of(saved)
        except MessageRefused as error:
            raise ValueError(f"its numerator: {error}") from error
        if numerator.size != self._size:
            raise OtherModel(numerator.size, self._size)
        return PushSumState(
            numerator=numerator,
            weight=saved.weight,
            cycle=saved.cycle,
            step=saved.step,
            exhausted=saved.exhausted,
            turn=saved.turn,
        )
