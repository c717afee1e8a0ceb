"""Codec for the gradient-walk learner's durable state."""

from sottovoce.algorithms.gradient_walk.public.machine import GradientWalk, GradientWalkState, Walk
from sottovoce.algorithms.state_codec import saved_model
from sottovoce.wire.v1 import gradient_walk_pb2


class GradientWalkCodec:
    """State codec for the gradient-walk learner; implements StateCodec."""

    def __init__(self, learner: GradientWalk) -> None:
        self._template = learner.fresh().parameters

    def encode(self, state: GradientWalkState) -> bytes:
        """Encode the durable part of the state; see StateCodec.encode."""
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
        """Decode a state; see StateCodec.decode."""
        saved = gradient_walk_pb2.GradientWalkState.FromString(raw)
        return GradientWalkState(
            parameters=saved_model(saved.parameters, self._template),
            age=saved.age,
            cycle=saved.cycle,
            turn=saved.turn,
            visits=saved.visits,
            exhausted=saved.exhausted,
            begun=saved.begun,
            walks=tuple(
                Walk(saved_model(walk.parameters, self._template), walk.age, walk.visited) for walk in saved.walks
            ),
        )
