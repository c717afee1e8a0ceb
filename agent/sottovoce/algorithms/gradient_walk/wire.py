"""Wire format for gradient-walk messages."""

from sottovoce.algorithms.gradient_walk.public.messages import GradientWalkMessage
from sottovoce.wire.arrays import check_model, from_float32, to_float32
from sottovoce.wire.v1 import gradient_walk_pb2


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
