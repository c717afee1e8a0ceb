"""Codec for golf's messages and durable state."""

from sottovoce.net.wire.v1 import golf_pb2
from sottovoce.plugin import (
    MAX_COUNT,
    Holding,
    MessageRefused,
    check_model,
    from_float32,
    records_from_wire,
    records_to_wire,
    saved_model,
    to_float32,
)

from sottovoce_papers.hegedus_2017.golf.public.machine import Golf, GolfState
from sottovoce_papers.hegedus_2017.golf.public.messages import GolfMessage


def to_bytes(message: GolfMessage) -> bytes:
    """Encode a message; see PayloadCodec.to_bytes."""
    return golf_pb2.GolfMessage(
        parameters=to_float32(message.parameters),
        age=message.age,
        holding_count=message.holding.count,
        holding_checksum=message.holding.checksum,
        records=records_to_wire(message.records),
    ).SerializeToString(deterministic=True)


def from_bytes(payload: bytes) -> GolfMessage:
    """Decode a message; see PayloadCodec.from_bytes."""
    golf = golf_pb2.GolfMessage.FromString(payload)
    holding = Holding(golf.holding_count, golf.holding_checksum)
    return GolfMessage(from_float32(golf.parameters), golf.age, holding, records_from_wire(golf.records))


def check(message: GolfMessage) -> None:
    """Check that the values in a message are in range; see PayloadCodec.check."""
    check_model(message.parameters, message.age, minimum=0)
    if message.holding.count > MAX_COUNT:
        raise MessageRefused("range", "the number of records exceeds its limit")


class GolfCodec:
    """State codec for the golf learner; implements StateCodec. Published records are stored separately."""

    def __init__(self, learner: Golf) -> None:
        self._fresh = learner.initial_state()

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
