"""The durable state of push-sum learners."""

import numpy as np
from numpy.typing import NDArray

from sottovoce.algorithms.push_sum.public.machine import PushSum, PushSumState
from sottovoce.algorithms.state_codec import OtherModel
from sottovoce.errors import MessageRefused
from sottovoce.wire.packed import Packed, pack, unpack
from sottovoce.wire.v1 import state_pb2


class PushSumCodec:
    """Implements StateCodec for push-sum learners."""

    def __init__(self, learner: PushSum) -> None:
        self._size = learner.schedule.width

    def encode(self, state: PushSumState) -> bytes:
        """See StateCodec.encode."""
        packed = pack(state.numerator)
        return state_pb2.PushSumState(
            size=packed.size,
            width=packed.width,
            shift=packed.shift,
            packed=packed.data,
            weight=state.weight,
            cycle=state.cycle,
            step=state.step,
            exhausted=state.exhausted,
            turn=state.turn,
        ).SerializeToString()

    def decode(self, raw: bytes) -> PushSumState:
        """See StateCodec.decode; also of version 0.1."""
        saved = state_pb2.PushSumState.FromString(raw)
        numerator = _numerator(saved)
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


def _numerator(saved: state_pb2.PushSumState) -> NDArray[np.int64]:
    if saved.numerator:
        return np.frombuffer(saved.numerator, dtype="<i8").astype(np.int64)
    try:
        return unpack(Packed(saved.size, saved.width, saved.shift, saved.packed))
    except MessageRefused as error:
        raise ValueError(f"its numerator: {error}") from error
