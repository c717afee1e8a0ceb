"""Codec for the durable state of a device in secure sums: the result of the opened sums that it knows."""

import numpy as np

from sottovoce.algorithms.cell.public.machine import Cells
from sottovoce.algorithms.cell.public.state import CellState
from sottovoce.algorithms.state_codec import OtherModel
from sottovoce.wire.v1 import secure_sum_pb2


class CellCodec:
    """State codec for devices that take part in secure sums; implements StateCodec."""

    def __init__(self, learner: Cells) -> None:
        self._size = learner.consumer.size

    def encode(self, state: CellState) -> bytes:
        """Encode the durable part of the state; see StateCodec.encode."""
        return secure_sum_pb2.CellState(
            cycle=state.cycle,
            exhausted=state.exhausted,
            simulated=state.simulated,
            slot=state.slot,
            numerator=b"" if state.numerator is None else state.numerator.astype("<i8").tobytes(),
            members=state.members,
        ).SerializeToString()

    def decode(self, raw: bytes) -> CellState:
        """Decode a state; see StateCodec.decode."""
        saved, numerator = secure_sum_pb2.CellState.FromString(raw), None
        if saved.numerator:
            if len(saved.numerator) != 8 * self._size:
                raise OtherModel(len(saved.numerator) // 8, self._size)
            numerator = np.frombuffer(saved.numerator, dtype="<i8").astype(np.int64)
        return CellState(
            cycle=saved.cycle,
            exhausted=saved.exhausted,
            simulated=saved.simulated,
            slot=saved.slot,
            numerator=numerator,
            members=saved.members,
        )
