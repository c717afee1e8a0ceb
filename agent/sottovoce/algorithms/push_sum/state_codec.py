"""The durable state of push-sum learners."""

import numpy as np

from sottovoce.algorithms.push_sum.public.machine import PushSum, PushSumState
from sottovoce.algorithms.state_codec import OtherModel
from sottovoce.wire.v1 import state_pb2


class PushSumCodec:
    """Implements StateCodec for push-sum learners."""

    def __init__(self, learner: PushSum) -> None:
        self._size = learner.schedule.width

    def encode(self, state: PushSumState) -> bytes:
        """See StateCodec.encode."""
        return state_pb2.PushSumState(
            numerator=state.numerator.astype("<i8").tobytes(),
            weight=state.weight,
            cycle=state.cycle,
            step=state.step,
            exhausted=state.exhausted,
            turn=state.turn,
        ).SerializeToString()

    def decode(self, raw: bytes) -> PushSumState:
        """See StateCodec.decode."""
        saved = state_pb2.PushSumState.FromString(raw)
        numerator = np.frombuffer(saved.numerator, dtype="<i8").astype(np.int64)
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
