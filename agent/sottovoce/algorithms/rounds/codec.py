"""Codec for the messages and the durable state of learners in rounds."""

from dataclasses import replace

import numpy as np

from sottovoce.algorithms.rounds.public import Rounds, RoundsState
from sottovoce.algorithms.rounds.public.state import MAX_VECTORS, RoundMessage
from sottovoce.algorithms.state_codec import saved_model
from sottovoce.errors import MessageRefused
from sottovoce.net.wire.arrays import MAX_COUNT, MAX_PARAMETERS, from_float32, to_float32
from sottovoce.net.wire.v1 import rounds_pb2

_MAX_NEIGHBOURS = 2**20
_MAX_PHASES = 2**10


def to_bytes(message: RoundMessage) -> bytes:
    """Encode a message; see PayloadCodec.to_bytes."""
    return rounds_pb2.RoundMessage(
        round=message.round,
        phase=message.phase,
        degree=message.degree,
        vectors=[to_float32(vector) for vector in message.vectors],
    ).SerializeToString(deterministic=True)


def from_bytes(payload: bytes) -> RoundMessage:
    """Decode a message; see PayloadCodec.from_bytes."""
    message = rounds_pb2.RoundMessage.FromString(payload)
    vectors = [from_float32(raw) for raw in message.vectors]
    if len({vector.size for vector in vectors}) > 1:
        raise MessageRefused("shape", "the vectors in a message have different lengths")
    stack = np.array(vectors, dtype=np.float32) if vectors else np.empty((0, 1), dtype=np.float32)
    stack.setflags(write=False)
    return RoundMessage(message.round, message.phase, message.degree, stack)


def check(message: RoundMessage) -> None:
    """Check that a message has a valid shape and that its values are in range; see PayloadCodec.check.

    MAX_PARAMETERS is small enough for two vectors of the longest model to fit.
    """
    vectors = message.vectors
    if vectors.ndim != 2 or len(vectors) > MAX_VECTORS or not 1 <= vectors.shape[1] <= MAX_PARAMETERS:
        raise MessageRefused(
            "shape",
            f"vectors have shape {vectors.shape}; expected at most {MAX_VECTORS} vectors of 1 to {MAX_PARAMETERS} "
            "values each",
        )
    if not np.isfinite(vectors).all():
        raise MessageRefused("range", "a vector contains a NaN or an infinity")
    if not (
        0 <= message.round <= MAX_COUNT and 0 <= message.phase < _MAX_PHASES and 1 <= message.degree <= _MAX_NEIGHBOURS
    ):
        raise MessageRefused("range", "the round, phase or degree exceeds its limit")


class RoundsCodec:
    """State codec for learners in rounds; implements StateCodec. Received messages do not survive a restart."""

    def __init__(self, learner: Rounds) -> None:
        self._fresh = learner.initial_state()

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
