"""Codec for the messages and the durable state of `gradient-walk`."""

from sottovoce.net.wire.v1 import gradient_walk_pb2
from sottovoce.plugin import check_model, from_float32, saved_model, to_float32

from sottovoce_papers.hegedus_2017.gradient_walk.public.machine import GradientWalk, GradientWalkState, Walk
from sottovoce_papers.hegedus_2017.gradient_walk.public.messages import GradientWalkMessage


def to_bytes(message: GradientWalkMessage) -> bytes:
    """Encode a message; see PayloadCodec.to_bytes."""
    return gradient_walk_pb2.GradientWalkMessage(
        parameters=to_float32(message.parameters), age=message.age
    ).SerializeToString(deterministic=True)


def from_bytes(payload: bytes) -> GradientWalkMessage:
    """Decode a message; see PayloadCodec.from_bytes."""
    walk = gradient_walk_pb2.GradientWalkMessage.FromString(payload)
    return GradientWalkMessage(from_float32(walk.parameters), walk.age)


def check(message: GradientWalkMessage) -> None:
    """Check that the values in a message are in range; see PayloadCodec.check."""
    check_model(message.parameters, message.age)


class GradientWalkCodec:
    """State codec for the gradient-walk learner; implements StateCodec."""

    def __init__(self, learner: GradientWalk) -> None:
        self._template = learner.initial_state().parameters

    def encode(self, state: GradientWalkState) -> bytes:
        """Encode the durable part of the state; see StateCodec.encode."""
        return gradient_walk_pb2.GradientWalkState(
            parameters=state.parameters.astype("<f8").tobytes(),
            age=state.age,
            cycle=state.cycle,
            turn=state.turn,
            visits=state.releases,
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
            releases=saved.visits,
            exhausted=saved.exhausted,
            begun=saved.begun,
            walks=tuple(
                Walk(saved_model(walk.parameters, self._template), walk.age, walk.visited) for walk in saved.walks
            ),
        )
