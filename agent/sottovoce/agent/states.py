"""The durable part of a learner's state, as bytes."""

from typing import Any, Protocol

import numpy as np

from sottovoce.learners import Golf, GolfState, PushSum, PushSumState
from sottovoce.wire.v1 import golf_pb2, state_pb2


class StateCodec(Protocol):
    """States of one learner to and from bytes."""

    def encode(self, state: Any) -> bytes:
        """What outlives a restart."""
        ...

    def decode(self, raw: bytes) -> Any:
        """The state again.

        Raises:
            DecodeError, ValueError: it is damaged, or of another model; the message says what it holds.
        """
        ...


class OtherModel(ValueError):
    """The saved model has not the size that the configuration asks for."""

    def __init__(self, found: int, expected: int) -> None:
        super().__init__(f"it holds a model of {found} numbers, the configuration asks for {expected}")


class PushSumCodec:
    """Implements StateCodec for push-sum learners."""

    def __init__(self, learner: PushSum) -> None:
        self._size = learner.schedule.size

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


class GolfCodec:
    """Implements StateCodec for the golf learner; the records it holds are kept in a book of their own."""

    def __init__(self, learner: Golf) -> None:
        self._fresh = learner.fresh()

    def encode(self, state: GolfState) -> bytes:
        """See StateCodec.encode."""
        return golf_pb2.GolfState(
            parameters=state.parameters.astype("<f8").tobytes(), age=state.age, cycle=state.cycle, turn=state.turn
        ).SerializeToString()

    def decode(self, raw: bytes) -> GolfState:
        """See StateCodec.decode."""
        saved = golf_pb2.GolfState.FromString(raw)
        parameters = np.frombuffer(saved.parameters, dtype="<f8").astype(np.float64)
        fresh = self._fresh
        if parameters.size != fresh.parameters.size:
            raise OtherModel(parameters.size, fresh.parameters.size)
        if not np.isfinite(parameters).all():
            raise ValueError("its model holds what is not a number")
        return GolfState(
            parameters.reshape(fresh.parameters.shape),
            fresh.shelf,
            fresh.moments,
            age=saved.age,
            cycle=saved.cycle,
            turn=saved.turn,
        )
