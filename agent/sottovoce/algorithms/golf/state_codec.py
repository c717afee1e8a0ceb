"""Codec for the golf learner's durable state."""

from sottovoce.algorithms.golf.public.machine import Golf, GolfState
from sottovoce.algorithms.state_codec import saved_model
from sottovoce.wire.v1 import golf_pb2


class GolfCodec:
    """State codec for the golf learner; implements StateCodec. Published records are stored separately."""

    def __init__(self, learner: Golf) -> None:
        self._fresh = learner.fresh()

    def encode(self, state: GolfState) -> bytes:
        """Encode the durable part of the state; see StateCodec.encode."""
        return golf_pb2.GolfState(
            parameters=state.parameters.astype("<f8").tobytes(), age=state.age, cycle=state.cycle, turn=state.turn
        ).SerializeToString()

    def decode(self, raw: bytes) -> GolfState:
        """Decode a state; see StateCodec.decode."""
        saved, fresh = golf_pb2.GolfState.FromString(raw), self._fresh
        return GolfState(
            saved_model(saved.parameters, fresh.parameters),
            fresh.shelf,
            fresh.moments,
            age=saved.age,
            cycle=saved.cycle,
            turn=saved.turn,
        )
