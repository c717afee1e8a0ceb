"""The durable state of a device that takes part in secure sums: the sum, once it is opened."""

import numpy as np

from sottovoce.algorithms.cell.public.machine import CellMean
from sottovoce.algorithms.cell.public.state import CellState, Sum
from sottovoce.algorithms.state_codec import OtherModel
from sottovoce.wire.v1 import secure_sum_pb2


class CellCodec:
    """Implements StateCodec for devices that take part in secure sums."""

    def __init__(self, learner: CellMean) -> None:
        self._size = learner.size

    def encode(self, state: CellState) -> bytes:
        """See StateCodec.encode."""
        saved = secure_sum_pb2.CellState(cycle=state.cycle, exhausted=state.exhausted, simulated=state.simulated)
        if state.sum is not None:
            saved.total, saved.members = state.sum.total.astype("<i8").tobytes(), state.sum.members
        return saved.SerializeToString()

    def decode(self, raw: bytes) -> CellState:
        """See StateCodec.decode."""
        saved, found = secure_sum_pb2.CellState.FromString(raw), None
        if saved.total:
            if len(saved.total) != 8 * self._size:
                raise OtherModel(len(saved.total) // 8, self._size)
            if saved.members < 1:
                raise ValueError("its sum is of no devices")
            found = Sum(np.frombuffer(saved.total, dtype="<i8").astype(np.int64), saved.members)
        return CellState(cycle=saved.cycle, exhausted=saved.exhausted, sum=found, simulated=saved.simulated)
