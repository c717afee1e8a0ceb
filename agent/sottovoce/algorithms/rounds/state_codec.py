"""Codec for the durable state of learners in rounds."""

from dataclasses import replace

from sottovoce.algorithms.rounds.public import Rounds, RoundsState
from sottovoce.algorithms.state_codec import saved_model
from sottovoce.wire.v1 import rounds_pb2


class RoundsCodec:
    """State codec for learners in rounds; implements StateCodec. Received messages do not survive a restart."""

    def __init__(self, learner: Rounds) -> None:
        self._fresh = learner.fresh()

    def encode(self, state: RoundsState) -> bytes:
        """Encode the durable part of the state; see StateCodec.encode."""
        work = state.work
        return rounds_pb2.RoundsState(
            cycle=state.cycle,
            model=work.model.astype("<f8").tobytes(),
            direction=work.direction.astype("<f8").tobytes(),
            kept=work.kept.astype("<f8").tobytes(),
            exhausted=state.exhausted,
        ).SerializeToString()

    def decode(self, raw: bytes) -> RoundsState:
        """Decode a state; see StateCodec.decode."""
        saved, work = rounds_pb2.RoundsState.FromString(raw), self._fresh.work
        return replace(
            self._fresh,
            work=replace(
                work,
                round=saved.cycle,
                model=saved_model(saved.model, work.model),
                direction=saved_model(saved.direction, work.direction),
                kept=saved_model(saved.kept, work.kept),
            ),
            exhausted=saved.exhausted,
        )
