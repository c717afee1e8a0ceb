"""The durable part of a learner's state, as bytes."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sottovoce.learners import Golf, GolfState, GradientWalk, GradientWalkState, PushSum, PushSumState, Walk
from sottovoce.wire.v1 import golf_pb2, gradient_walk_pb2, state_pb2


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
        saved, fresh = golf_pb2.GolfState.FromString(raw), self._fresh
        return GolfState(
            _model(saved.parameters, fresh.parameters),
            fresh.shelf,
            fresh.moments,
            age=saved.age,
            cycle=saved.cycle,
            turn=saved.turn,
        )


class GradientWalkCodec:
    """Implements StateCodec for the gradient-walk learner."""

    def __init__(self, learner: GradientWalk) -> None:
        self._like = learner.fresh().parameters

    def encode(self, state: GradientWalkState) -> bytes:
        """See StateCodec.encode."""
        return gradient_walk_pb2.GradientWalkState(
            parameters=state.parameters.astype("<f8").tobytes(),
            age=state.age,
            cycle=state.cycle,
            turn=state.turn,
            visits=state.visits,
            exhausted=state.exhausted,
            begun=state.begun,
            walks=[
                gradient_walk_pb2.GradientWalkHeld(
                    parameters=walk.parameters.astype("<f8").tobytes(), age=walk.age, visited=walk.visited
                )
                for walk in state.walks
            ],
        ).SerializeToString()

    def decode(self, raw: bytes) -> GradientWalkState:
        """See StateCodec.decode."""
        saved = gradient_walk_pb2.GradientWalkState.FromString(raw)
        return GradientWalkState(
            parameters=_model(saved.parameters, self._like),
            age=saved.age,
            cycle=saved.cycle,
            turn=saved.turn,
            visits=saved.visits,
            exhausted=saved.exhausted,
            begun=saved.begun,
            walks=tuple(Walk(_model(held.parameters, self._like), held.age, held.visited) for held in saved.walks),
        )


def _model(raw: bytes, like: NDArray[np.float64]) -> NDArray[np.float64]:
    """A saved model in the shape of `like`."""
    parameters = np.frombuffer(raw, dtype="<f8").astype(np.float64)
    if parameters.size != like.size:
        raise OtherModel(parameters.size, like.size)
    if not np.isfinite(parameters).all():
        raise ValueError("its model holds what is not a number")
    return parameters.reshape(like.shape)
