"""The durable state of a device that averages in pairs: that of push-sum, of weight 1, or of 0 while it is blank.

So a device that mixed by push-sum before goes on from the model that it believed in.
"""

import numpy as np

from sottovoce.algorithms.pairwise.public.machine import Pairwise
from sottovoce.algorithms.pairwise.public.state import PairwiseState
from sottovoce.algorithms.state_codec import OtherModel
from sottovoce.algorithms.steps.numerator import numerator_of
from sottovoce.algorithms.steps.public.descent import MAX_NUMERATOR, UNIT
from sottovoce.errors import MessageRefused
from sottovoce.wire.packed import put
from sottovoce.wire.v1 import state_pb2

_ONE = int(UNIT)
_LEAST = _ONE >> 20  # of push-sum: with less there is no model


class PairwiseCodec:
    """Implements StateCodec for devices that average in pairs."""

    def __init__(self, learner: Pairwise) -> None:
        self._size = learner.schedule.width

    def encode(self, state: PairwiseState) -> bytes:
        """See StateCodec.encode."""
        saved = state_pb2.PushSumState(
            weight=0 if state.blank else _ONE,
            cycle=state.cycle,
            step=state.step,
            exhausted=state.exhausted,
            turn=state.turn,
        )
        put(saved, state.numerator)
        return saved.SerializeToString()

    def decode(self, raw: bytes) -> PairwiseState:
        """See StateCodec.decode."""
        saved = state_pb2.PushSumState.FromString(raw)
        try:
            numerator = numerator_of(saved)
        except MessageRefused as error:
            raise ValueError(f"its model: {error}") from error
        if numerator.size != self._size:
            raise OtherModel(numerator.size, self._size)
        if saved.weight not in (0, _ONE):
            believed = np.rint(numerator / max(saved.weight, _LEAST) * UNIT)
            numerator = np.clip(believed, -MAX_NUMERATOR, MAX_NUMERATOR).astype(np.int64)
        return PairwiseState(
            numerator=numerator,
            blank=saved.weight < _LEAST,
            cycle=saved.cycle,
            step=saved.step,
            exhausted=saved.exhausted,
            turn=saved.turn,
        )
