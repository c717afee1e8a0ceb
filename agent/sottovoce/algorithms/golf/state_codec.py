"""The durable state of the golf learner."""

from sottovoce.algorithms.golf.public.machine import Golf, GolfState
from sottovoce.algorithms.state_codec import saved_model
from sottovoce.wire.v1 import golf_pb2


class GolfCodec:
    """Implementation of StateCodec for the golf learner, whose records are kept in a separate book."""

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
            saved_model(saved.parameters, fresh.parameters),
            fresh.shelf,
            fresh.moments,
            age=saved.age,
            cycle=saved.cycle,
            turn=saved.turn,
        )
