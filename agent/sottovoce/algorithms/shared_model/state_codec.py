"""Codec for the durable state of shared-model learners."""

import numpy as np

from sottovoce.algorithms.shared_model.public.machine import SharedModel
from sottovoce.algorithms.shared_model.public.state import Floats, SharedModelState, StoredModel
from sottovoce.algorithms.shared_model.wire import from_wire, to_wire
from sottovoce.algorithms.state_codec import OtherModel
from sottovoce.wire.arrays import from_float32, to_float32
from sottovoce.wire.v1 import shared_model_pb2


class SharedModelCodec:
    """State codec for shared-model learners; implements StateCodec."""

    def __init__(self, learner: SharedModel) -> None:
        self._size = learner.fresh().own.size

    def encode(self, state: SharedModelState) -> bytes:
        """Encode the durable part of the state; see StateCodec.encode."""
        model = shared_model_pb2.SharedModel(
            head=to_wire(state.model.head), parameters=to_float32(state.model.parameters.astype(np.float32))
        )
        return shared_model_pb2.SharedModelState(
            model=model,
            own=to_float32(state.own.astype(np.float32)),
            heard=to_wire(state.newest_head),
            told=to_wire(state.announced_head),
            cycle=state.cycle,
            turn=state.turn,
            exhausted=state.exhausted,
            forks=state.forks,
            lost=state.lost_updates,
            written=state.heads_by_writer,
        ).SerializeToString()

    def decode(self, raw: bytes) -> SharedModelState:
        """Decode a state; see StateCodec.decode."""
        saved = shared_model_pb2.SharedModelState.FromString(raw)
        return SharedModelState(
            model=StoredModel(from_wire(saved.model.head), self._decode_model(saved.model.parameters)),
            own=self._decode_model(saved.own),
            newest_head=from_wire(saved.heard),
            announced_head=from_wire(saved.told),
            cycle=saved.cycle,
            turn=saved.turn,
            exhausted=saved.exhausted,
            forks=saved.forks,
            lost_updates=saved.lost,
            heads_by_writer=dict(saved.written),
        )

    def _decode_model(self, raw: bytes) -> Floats:
        parameters = from_float32(raw).astype(np.float64)
        if parameters.size != self._size:
            raise OtherModel(parameters.size, self._size)
        if not np.isfinite(parameters).all():
            raise ValueError("the saved model contains a NaN or an infinity")
        return parameters
