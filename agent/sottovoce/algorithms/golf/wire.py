"""Wire format for gossip learning on perturbed records."""

from sottovoce.algorithms.golf.public.messages import GolfMessage
from sottovoce.errors import MessageRefused
from sottovoce.learners.published_records import Holding
from sottovoce.wire.arrays import MAX, check_model, from_float32, to_float32
from sottovoce.wire.published import from_wire, to_wire
from sottovoce.wire.v1 import golf_pb2


def to_bytes(message: GolfMessage) -> bytes:
    """Encode a message; see PayloadCodec.to_bytes."""
    return golf_pb2.GolfMessage(
        parameters=to_float32(message.parameters),
        age=message.age,
        holding_count=message.holding.count,
        holding_checksum=message.holding.checksum,
        records=to_wire(message.records),
    ).SerializeToString(deterministic=True)


def from_bytes(payload: bytes) -> GolfMessage:
    """Decode a message; see PayloadCodec.from_bytes."""
    golf = golf_pb2.GolfMessage.FromString(payload)
    holding = Holding(golf.holding_count, golf.holding_checksum)
    return GolfMessage(from_float32(golf.parameters), golf.age, holding, from_wire(golf.records))


def check(message: GolfMessage) -> None:
    """Check that the values in a message are in range; see PayloadCodec.check."""
    check_model(message.parameters, message.age, minimum=0)
    if message.holding.count > MAX:
        raise MessageRefused("range", "the number of records exceeds its limit")
